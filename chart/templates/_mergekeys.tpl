{{/*
Generated from the schemas of Kubernetes 1.29 to 1.37 by `python scripts/merge_keys.py`. Do not edit.

Lists of a pod template whose items a strategic merge patch merges, by which key
(x-kubernetes-patch-merge-key). Any other list is replaced.
*/}}
{{- define "training-job.mergeKeys" }}
containers: name
env: name
ephemeralContainers: name
evictionResponders: name
hostAliases: ip
imagePullSecrets: name
initContainers: name
ownerReferences: uid
ports: containerPort
resourceClaims: name
schedulingGates: name
topologySpreadConstraints: topologyKey
volumeDevices: devicePath
volumeMounts: mountPath
volumes: name
{{- end }}
