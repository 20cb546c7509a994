obj.spec.active = true
return obj
