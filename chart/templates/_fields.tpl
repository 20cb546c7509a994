{{/*
Generated from the fields of a job by `python scripts/chart_fields.py`. Do not edit.

Fields of a pod that values give as Kubernetes has them, in the order in which they are rendered.
*/}}
{{- define "training-job.podFields" -}}
topologySpreadConstraints resourceClaims hostNetwork hostIPC hostPID hostUsers shareProcessNamespace enableServiceLinks dnsPolicy dnsConfig hostAliases
{{- end }}
