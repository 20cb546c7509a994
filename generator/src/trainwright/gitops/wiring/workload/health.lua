local finished = holding(status.conditions, "Finished")
if finished then
  local wrong = {Failed = true, AdmissionChecksRejected = true, OutOfSync = true}
  return health(wrong[finished.reason] and "Degraded" or "Healthy", finished, "finished")
end
if obj.spec.active == false then
  return health("Suspended", holding(status.conditions, "Evicted"), "held: spec.active is false")
end
local admitted = holding(status.conditions, "Admitted")
if admitted then
  return health("Progressing", admitted, "admitted")
end
local reserved = holding(status.conditions, "QuotaReserved")
if reserved then
  return health("Progressing", reserved, "quota is reserved, admission checks are running")
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "QuotaReserved" then
    -- A queue that is stopped or missing needs an operator; one that is full needs time.
    local stopped = condition.reason == "Inadmissible"
    return health(stopped and "Suspended" or "Progressing", condition, "waiting for quota")
  end
end
return health("Progressing", nil, "waiting for Kueue")
