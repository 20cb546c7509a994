{{/* A quantity as Docker writes it: it counts in powers of 1024 and knows no other units. */}}
{{- define "training-job.bytes" -}}
{{ . | replace "Ti" "t" | replace "Gi" "g" | replace "Mi" "m" | replace "Ki" "k" | quote }}
{{- end }}

{{/* Cores and memory. Takes the requests or the limits. */}}
{{- define "training-job.composeAmounts" }}
{{- with .cpu }}
cpus: {{ quote . }}
{{- end }}
{{- with .memory }}
memory: {{ include "training-job.bytes" . }}
{{- end }}
{{- end }}

{{/*
Mounts of the container: a claim is a volume that exists. Takes the volumes.
*/}}
{{- define "training-job.composeMounts" }}
{{- range $volume := . }}
{{- $source := .source }}
{{- $scratch := default dict .source.emptyDir }}
{{- range concat (ternary (list .) list (hasKey . "mountPath")) (default list .mounts) }}
{{- if $source.hostPath }}
- type: bind
  source: {{ printf "%s/%s" (trimSuffix "/" $source.hostPath.path) (default "" .subPath) | trimSuffix "/" | default "/" | quote | replace "$" "$$" }}
  target: {{ quote .mountPath | replace "$" "$$" }}
  {{- if .readOnly }}
  read_only: true
  {{- end }}
  bind:
    create_host_path: {{ eq (default "" $source.hostPath.type) "DirectoryOrCreate" }}
{{- else if eq (default "" $scratch.medium) "Memory" }}
- type: tmpfs
  target: {{ quote .mountPath | replace "$" "$$" }}
  {{- with $scratch.sizeLimit }}
  tmpfs:
    size: {{ include "training-job.bytes" . }}
  {{- end }}
{{- else }}
- type: volume
  {{- with $source.persistentVolumeClaim }}
  source: {{ quote .claimName }}
  {{- end }}
  {{- if $source.nfs }}
  source: {{ quote $volume.name }}
  {{- end }}
  target: {{ quote .mountPath | replace "$" "$$" }}
  {{- if or .readOnly (default dict $source.persistentVolumeClaim).readOnly }}
  read_only: true
  {{- end }}
  {{- with .subPath }}
  volume:
    subpath: {{ quote . | replace "$" "$$" }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* How much the container gets, if any. Takes the values. */}}
{{- define "training-job.composeDeploy" }}
{{- $gpus := get (default dict .resources.limits) "nvidia.com/gpu" }}
{{- if .runPolicy.suspend }}
replicas: 0
{{- end }}
{{- if or .resources.requests .resources.limits }}
resources:
  {{- with .resources.limits }}
  limits:
    {{- include "training-job.composeAmounts" . | trim | nindent 4 }}
  {{- end }}
  {{- if or .resources.requests $gpus }}
  reservations:
    {{- with .resources.requests }}
    {{- include "training-job.composeAmounts" . | trim | nindent 4 }}
    {{- end }}
    {{- with $gpus }}
    devices:
      - driver: nvidia
        count: {{ . }}
        capabilities: [gpu]
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
