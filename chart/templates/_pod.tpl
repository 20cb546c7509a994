{{/*
The pod template of every kind. Takes a dict of "root" (the chart's scope) and "container" (the
name that the operator looks for).
*/}}
{{- define "training-job.pod" -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "training-job.labels" (dict "root" .root "labels" $values.podLabels) | trim | nindent 4 }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- include "training-job.strings" . | trim | nindent 4 }}
  {{- end }}
spec:
  {{- with $values.schedulerName }}
  schedulerName: {{ quote . }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ quote . }}
  {{- end }}
  {{- with $values.serviceAccountName }}
  serviceAccountName: {{ quote . }}
  {{- end }}
  automountServiceAccountToken: {{ $values.automountServiceAccountToken }}
  terminationGracePeriodSeconds: {{ int64 $values.terminationGracePeriodSeconds }}
  {{- with $values.podSecurityContext }}
  securityContext:
    {{- include "training-job.fields" . | trim | nindent 4 }}
  {{- end }}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ quote .name }}
    {{- end }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- include "training-job.strings" . | trim | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- range . }}
    - {{ include "training-job.fields" . | indent 6 | trim }}
    {{- end }}
  {{- end }}
  {{- with $values.affinity }}
  affinity: {{ toJson . | replace "\x7f" "\\u007f" }}
  {{- end }}
  containers:
    - name: {{ .container }}
      {{- include "training-job.container" $values | trim | nindent 6 }}
  {{- with include "training-job.volumes" $values | trim }}
  {{- nindent 2 . }}
  {{- end }}
{{- end }}

{{/* The container, after its name. Takes the values. */}}
{{- define "training-job.container" }}
image: {{ include "training-job.image" .image | quote }}
imagePullPolicy: {{ .image.pullPolicy }}
{{- with .command }}
command:
  {{- range . }}
  - {{ quote . }}
  {{- end }}
{{- end }}
{{- with .args }}
args:
  {{- range . }}
  - {{ quote . }}
  {{- end }}
{{- end }}
{{- if or .env .secretEnv }}
env:
  {{- range $name, $value := .env }}
  - name: {{ quote $name }}
    value: {{ quote $value }}
  {{- end }}
  {{- range $name, $secret := .secretEnv }}
  - name: {{ quote $name }}
    valueFrom:
      secretKeyRef:
        name: {{ quote $secret.name }}
        key: {{ quote $secret.key }}
  {{- end }}
{{- end }}
{{- with .ports }}
ports:
  {{- range . }}
  - name: {{ quote .name }}
    containerPort: {{ int64 .containerPort }}
    protocol: {{ default "TCP" .protocol }}
  {{- end }}
{{- end }}
{{- if or .resources.requests .resources.limits }}
resources:
  {{- with .resources.requests }}
  requests:
    {{- include "training-job.strings" . | trim | nindent 4 }}
  {{- end }}
  {{- with .resources.limits }}
  limits:
    {{- include "training-job.strings" . | trim | nindent 4 }}
  {{- end }}
{{- end }}
{{- with .securityContext }}
securityContext:
  {{- include "training-job.fields" . | trim | nindent 2 }}
{{- end }}
{{- if or .volumes .shm.sizeLimit }}
volumeMounts:
  {{- if .shm.sizeLimit }}
  - name: dshm
    mountPath: /dev/shm
  {{- end }}
  {{- range .volumes }}
  - name: {{ quote .name }}
    mountPath: {{ quote .mountPath }}
    {{- with .subPath }}
    subPath: {{ quote . }}
    {{- end }}
    {{- if .readOnly }}
    readOnly: true
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The pod's volumes. Takes the values. */}}
{{- define "training-job.volumes" }}
{{- if or .volumes .shm.sizeLimit }}
volumes:
  {{- if .shm.sizeLimit }}
  - name: dshm
    emptyDir:
      medium: Memory
      sizeLimit: {{ quote .shm.sizeLimit }}
  {{- end }}
  {{- range .volumes }}
  - name: {{ quote .name }}
    {{- range $kind, $source := .source }}
    {{ $kind }}: {{ toJson $source | replace "\x7f" "\\u007f" }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
