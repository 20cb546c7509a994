{{/* The y of Kubeflow Trainer 2.y, whose TrainJobs differ with it. */}}
{{- define "training-job.trainerMinor" -}}
{{ index (splitList "." .Values.trainer.version) 1 }}
{{- end }}

{{/*
What a TrainJob may change in the pods of a runtime that is not its own, and each minor version
lets it change more. Takes a dict of "root" (the chart's scope) and "minor".
*/}}
{{- define "training-job.override" }}
{{- $minor := .minor }}
{{- $root := .root }}
{{- with .root.Values }}
{{- with .serviceAccountName }}
serviceAccountName: {{ quote . }}
{{- end }}
{{- if ge $minor 3 }}
terminationGracePeriodSeconds: {{ int64 .terminationGracePeriodSeconds }}
{{- end }}
{{- if and .podSecurityContext (ge $minor 2) }}
securityContext:
  {{- include "training-job.fields" .podSecurityContext | trim | nindent 2 }}
{{- end }}
{{- if and .imagePullSecrets (ge $minor 1) }}
imagePullSecrets:
  {{- range .imagePullSecrets }}
  - name: {{ quote .name }}
  {{- end }}
{{- end }}
{{- include "training-job.placement" (dict "values" . "affinity" (ge $minor 1)) }}
containers:
  - name: node
    {{- if and .securityContext (ge $minor 2) }}
    securityContext:
      {{- include "training-job.fields" .securityContext | trim | nindent 6 }}
    {{- end }}
    {{- with include "training-job.mounts" . | trim }}
    {{- nindent 4 . }}
    {{- end }}
{{- with include "training-job.volumes" $root | trim }}
{{- nindent 0 . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The same with the labels and annotations of the pods, patched. Takes a dict of "root" and "pod". */}}
{{- define "training-job.overrideTemplate" -}}
{{- include "training-job.patched" (dict "values" .root.Values "pod" (include "training-job.overriding" .)) }}
{{- end }}

{{/* The same, as the other values have it. */}}
{{- define "training-job.overriding" -}}
metadata:
  labels:
    {{- include "training-job.labels" (dict "root" .root "labels" .root.Values.podLabels) | trim | nindent 4 }}
  {{- with .root.Values.podAnnotations }}
  annotations:
    {{- include "training-job.strings" . | trim | nindent 4 }}
  {{- end }}
spec:
  {{- .pod | nindent 2 }}
{{- end }}
