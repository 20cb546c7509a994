if (status.broken or 0) > 0 then
  return health("Degraded", nil, "broken")
end
return health("Progressing", nil, "in play")
