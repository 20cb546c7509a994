-- Argo CD's own check takes any Suspended condition, a false one too, for the end of the job.
local failed = holding(status.conditions, "Failed") or holding(status.conditions, "FailureTarget")
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
if (status.active or 0) > 0 then
  return health("Progressing", nil, "running")
end
return health("Progressing", nil, "waiting for the job controller")
