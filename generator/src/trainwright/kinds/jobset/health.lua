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
-- What trains depends on groups that serve it: those whose pods are not all ready.
local counts, late = {}, {}
for _, job in ipairs(status.replicatedJobsStatus or {}) do
  counts[job.name] = (job.ready or 0) + (job.succeeded or 0)
end
for _, group in ipairs(obj.spec.replicatedJobs or {}) do
  for _, other in ipairs(group.dependsOn or {}) do
    if counts[other.name] == 0 and other.status == "Ready" then
      table.insert(late, other.name)
    end
  end
end
if #late > 0 then
  return health("Progressing", nil, "not ready: " .. table.concat(late, ", "))
end
for _, job in ipairs(status.replicatedJobsStatus or {}) do
  if (job.active or 0) > 0 or (job.ready or 0) > 0 then
    return health("Progressing", nil, "running")
  end
end
return health("Progressing", nil, "waiting for the JobSet controller")
