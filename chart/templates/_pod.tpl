{{/*
Metadata and spec of the pod template. Takes a dict of "root" (the chart's scope) and "container"
(the name that the operator looks for).
*/}}
{{- define "training-job.pod" -}}
{{- $root := .root -}}
{{- with $root.Values -}}
metadata:
  labels:
    {{- include "training-job.strings" (merge (dict) .podLabels .commonLabels) | indent 4 }}
  {{- with .podAnnotations }}
  annotations:
    {{- include "training-job.strings" . | indent 4 }}
  {{- end }}
spec:
  {{- with .schedulerName }}
  schedulerName: {{ quote . }}
  {{- end }}
  {{- with .priorityClassName }}
  priorityClassName: {{ quote . }}
  {{- end }}
  {{- with .serviceAccountName }}
  serviceAccountName: {{ quote . }}
  {{- end }}
  automountServiceAccountToken: {{ .automountServiceAccountToken }}
  terminationGracePeriodSeconds: {{ int64 .terminationGracePeriodSeconds }}
  {{- with .podSecurityContext }}
  securityContext: {{ toJson . }}
  {{- end }}
  {{- with .imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ quote .name }}
    {{- end }}
  {{- end }}
  {{- with .nodeSelector }}
  nodeSelector:
    {{- include "training-job.strings" . | indent 4 }}
  {{- end }}
  {{- with .tolerations }}
  tolerations:
    {{- range . }}
    - {{ toJson . }}
    {{- end }}
  {{- end }}
  {{- with .affinity }}
  affinity: {{ toJson . }}
  {{- end }}
  containers:
    - name: {{ $.container }}
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
          {{- include "training-job.strings" . | indent 10 }}
        {{- end }}
        {{- with .resources.limits }}
        limits:
          {{- include "training-job.strings" . | indent 10 }}
        {{- end }}
      {{- end }}
      {{- with .securityContext }}
      securityContext: {{ toJson . }}
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
      {{ $kind }}: {{ toJson $source }}
      {{- end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* repository[:tag][@digest] */}}
{{- define "training-job.image" -}}
{{ required "image.repository is required" .repository }}{{ with .tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end }}
