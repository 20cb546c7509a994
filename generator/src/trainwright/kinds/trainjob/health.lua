local failed = holding(status.conditions, "Failed")
if failed then
  return health("Degraded", failed, "failed")
end
local complete = holding(status.conditions, "Complete")
if complete then
  return health("Healthy", complete, "complete")
end
local suspended = holding(status.conditions, "Suspended")
if suspended then
  return paused(suspended)
end
-- There is no condition for a job that runs.
for _, job in ipairs(status.jobsStatus or {}) do
  if (job.active or 0) > 0 or (job.ready or 0) > 0 then
    return health("Progressing", nil, "running")
  end
end
return health("Progressing", nil, "waiting for Kubeflow Trainer")
