obj.spec.active = false
return obj
