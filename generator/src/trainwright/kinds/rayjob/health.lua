-- Ray's word for the program is jobStatus, KubeRay's for all of it jobDeploymentStatus.
local word = status.jobDeploymentStatus or ""
local said = {message = status.message}
if word == "Failed" or word == "ValidationFailed" then
  return health("Degraded", said, status.reason or "failed")
end
if status.jobStatus == "STOPPED" then
  return health("Degraded", said, "stopped")
end
if word == "Complete" then
  return health("Healthy", said, "complete")
end
if word == "Suspending" or word == "Suspended" then
  return paused(nil)
end
local words = {
  Initializing = "waiting until all nodes of the cluster are ready",
  Waiting = "waiting until someone submits the program",
  Running = "running",
  Retrying = "failed " .. (status.failed or 0) .. " times, and tried again",
}
return health("Progressing", nil, words[word] or "waiting for KubeRay")
