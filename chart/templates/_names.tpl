{{/*
Name of the job object. Controllers append at most "-worker-999" to it, and the result must be a
DNS label of 63 characters, so the usual Helm name is cut to 52.
*/}}
{{- define "training-job.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ $full | lower | replace "." "-" | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/* Labels of the object and of its pods. */}}
{{- define "training-job.labels" -}}
{{- $own := dict "app.kubernetes.io/name" .Chart.Name "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/managed-by" .Release.Service -}}
{{- include "training-job.strings" (merge (dict) .Values.commonLabels $own) -}}
{{- end }}

{{/* A map of strings, sorted by key, with everything quoted: Go's toYaml leaves 1e3 bare. */}}
{{- define "training-job.strings" -}}
{{- range $key, $value := . }}
{{ quote $key }}: {{ quote $value }}
{{- end }}
{{- end }}
