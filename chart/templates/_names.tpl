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

{{/*
A map of strings in the order of its keys, with everything quoted: YAML readers disagree on bare
scalars such as 1e3, 0o7 and y, and toYaml leaves some of them bare.
*/}}
{{- define "training-job.strings" -}}
{{- range $key, $value := . }}
{{ quote $key }}: {{ quote $value }}
{{- end }}
{{- end }}

{{/* A map of plain fields: strings quoted, the rest as JSON, which every YAML reader agrees on. */}}
{{- define "training-job.fields" -}}
{{- range $key, $value := . }}
{{ $key }}: {{ if kindIs "string" $value }}{{ quote $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- end }}

{{/*
Labels of the object or of its pods. Takes a dict of "root" (the chart's scope) and "labels" (those
of one of the two only). What values say wins over the chart's own.
*/}}
{{- define "training-job.labels" -}}
{{- $own := dict "app.kubernetes.io/name" .root.Chart.Name "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- include "training-job.strings" (merge (dict) .labels .root.Values.commonLabels $own) -}}
{{- end }}

{{/* Metadata of the job object. */}}
{{- define "training-job.metadata" -}}
name: {{ include "training-job.fullname" . | quote }}
namespace: {{ quote .Release.Namespace }}
labels:
  {{- include "training-job.labels" (dict "root" . "labels" .Values.labels) | trim | nindent 2 }}
{{- with .Values.annotations }}
annotations:
  {{- include "training-job.strings" . | trim | nindent 2 }}
{{- end }}
{{- end }}

{{/* The run policy, which both operators read alike. */}}
{{- define "training-job.runPolicy" -}}
runPolicy:
{{- with .Values.runPolicy }}
  {{- with .cleanPodPolicy }}
  cleanPodPolicy: {{ . }}
  {{- end }}
  {{- if hasKey . "backoffLimit" }}
  backoffLimit: {{ int64 .backoffLimit }}
  {{- end }}
  {{- if hasKey . "activeDeadlineSeconds" }}
  activeDeadlineSeconds: {{ int64 .activeDeadlineSeconds }}
  {{- end }}
  {{- with .schedulingPolicy }}
  schedulingPolicy:
    {{- include "training-job.fields" . | trim | nindent 4 }}
  {{- end }}
  {{- if hasKey . "suspend" }}
  suspend: {{ .suspend }}
  {{- end }}
{{- else }} {}
{{- end }}
{{- end }}

{{/* repository[:tag][@digest] */}}
{{- define "training-job.image" -}}
{{ required "image.repository is required" .repository }}
{{- with .tag }}:{{ . }}{{ end }}
{{- with .digest }}@{{ . }}{{ end }}
{{- end }}
