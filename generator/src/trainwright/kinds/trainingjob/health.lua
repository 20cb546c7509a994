-- The stage says Completed of a job that failed too: how it ended is in the conditions.
local conditions = (status.execStatus or {}).conditions
local failed = holding(conditions, "Failed")
if failed then
  return health("Degraded", failed, "failed")
end
local succeeded = holding(conditions, "Succeeded")
if status.stage == "Completed" and succeeded then
  return health("Healthy", succeeded, "succeeded")
end
local words = {
  Waiting = "waiting for free nodes",
  Running = "running",
  RequeueCooldown = "its pods were not ready in time: waiting to be queued again",
  Completed = "ended, but does not say how yet",
}
if words[status.stage] then
  return health("Progressing", holding(conditions, "Restarting"), words[status.stage])
end
local ends = {
  WrongConfiguration = "wrong configuration: minSize and maxSize must be 1 <= minSize <= maxSize",
  Cancelled = "cancelled in the cluster",
}
if ends[status.stage] then
  return health("Degraded", nil, ends[status.stage])
end
return health("Progressing", nil, "waiting for the Lattice operator")
