local failed = holding(status.conditions, "Failed")
if failed or status.terminalState == "Failed" then
  return health("Degraded", failed, "failed")
end
local completed = holding(status.conditions, "Completed")
if completed or status.terminalState == "Completed" then
  return health("Healthy", completed, "completed")
end
local suspended = holding(status.conditions, "Suspended")
if suspended then
  return paused(suspended)
end
if (status.restarts or 0) > 0 then
  return health("Progressing", nil, "restarted " .. status.restarts .. " times")
end
for _, job in ipairs(status.replicatedJobsStatus or {}) do
  if (job.active or 0) > 0 or (job.ready or 0) > 0 then
    return health("Progressing", nil, "running")
  end
end
return health("Progressing", nil, "waiting for the JobSet controller")
