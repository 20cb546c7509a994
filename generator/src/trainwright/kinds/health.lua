-- The condition of a type when it holds; nil when it does not, or is not reported yet.
local function holding(conditions, kind)
  for _, condition in ipairs(conditions or {}) do
    if condition.type == kind and condition.status == "True" then
      return condition
    end
  end
end

-- A health, with the controller's own words where there are any.
local function health(status, condition, words)
  local message = condition and condition.message
  if message == nil or message == "" then
    message = words
  end
  return {status = status, message = message}
end

-- Suspended on purpose; but what has a queue is suspended by Kueue, and goes on by itself.
local function paused(condition)
  local queue = (obj.metadata.labels or {})["kueue.x-k8s.io/queue-name"]
  if queue then
    return {status = "Progressing", message = "waiting for quota in the queue " .. queue}
  end
  return health("Suspended", condition, "suspended")
end

local status = obj.status or {}
