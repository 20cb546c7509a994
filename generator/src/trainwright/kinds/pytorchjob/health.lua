local conditions = status.conditions
local failed = holding(conditions, "Failed")
if failed then
  return health("Degraded", failed, "failed")
end
local succeeded = holding(conditions, "Succeeded")
if succeeded then
  return health("Healthy", succeeded, "succeeded")
end
local suspended = holding(conditions, "Suspended")
if suspended then
  return paused(suspended)
end
for _, kind in ipairs({"Restarting", "Running", "Created"}) do
  local condition = holding(conditions, kind)
  if condition then
    return health("Progressing", condition, kind)
  end
end
return health("Progressing", nil, "waiting for the training operator")
