local held = obj.spec.active == false
local finished = false
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  if condition.type == "Finished" and condition.status == "True" then
    finished = true
  end
end
return {
  ["hold"] = {["disabled"] = held or finished},
  ["release"] = {["disabled"] = not held or finished},
}
