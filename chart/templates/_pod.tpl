{{/*
The pod template of every kind, patched. Takes a dict of "root" (the chart's scope) and "container"
(the name that the operator looks for); and where a kind needs them "restartPolicy", "subdomain"
(the headless service that gives each pod an address) and "elsewhere" (whether another object sets
what runs in the container).
*/}}
{{- define "training-job.pod" -}}
{{- include "training-job.patched" (dict "values" .root.Values "pod" (include "training-job.podTemplate" .)) }}
{{- end }}

{{/* The same, as the other values have it. */}}
{{- define "training-job.podTemplate" -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "training-job.labels" (dict "root" .root "labels" $values.podLabels) | trim | nindent 4 }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- include "training-job.strings" . | trim | nindent 4 }}
  {{- end }}
spec:
  {{- with .restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- with .subdomain }}
  subdomain: {{ quote . }}
  {{- end }}
  {{- with $values.schedulerName }}
  schedulerName: {{ quote . }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ quote . }}
  {{- end }}
  {{- with $values.runtimeClassName }}
  runtimeClassName: {{ quote . }}
  {{- end }}
  {{- with include "training-job.given" (dict "values" $values "fields" (splitList " " (include "training-job.podFields" .))) | trim }}
  {{- nindent 2 . }}
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
  {{- with include "training-job.placement" (dict "values" $values "affinity" true) | trim }}
  {{- nindent 2 . }}
  {{- end }}
  {{- with $values.initContainers }}
  initContainers:
    {{- range . }}
    - name: {{ quote .name }}
      {{- include "training-job.tree" (omit . "name") | trimPrefix "\n" | nindent 6 }}
    {{- end }}
  {{- end }}
  containers:
    - name: {{ .container }}
      {{- include "training-job.container" (dict "values" $values "elsewhere" .elsewhere) | trim | nindent 6 }}
  {{- with include "training-job.volumes" .root | trim }}
  {{- nindent 2 . }}
  {{- end }}
{{- end }}

{{/*
Fields that values give as Kubernetes has them, but for what is empty; false is only where it is not
what holds anyway. Takes a dict of "values" and "fields", a list of names.
*/}}
{{- define "training-job.given" }}
{{- $values := .values }}
{{- range $field := .fields }}
{{- $value := get $values $field }}
{{- if or $value (and (kindIs "bool" $value) (has $field (list "hostUsers" "enableServiceLinks"))) }}
{{ $field }}: {{ if kindIs "string" $value }}{{ quote $value }}{{ else }}{{ toJson $value | replace "\x7f" "\\u007f" }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The container, after its name. Takes a dict of "values" and "elsewhere", as for the pod. */}}
{{- define "training-job.container" }}
{{- $here := not .elsewhere }}
{{- with .values }}
{{- if $here }}
image: {{ include "training-job.image" .image | quote }}
{{- end }}
imagePullPolicy: {{ .image.pullPolicy }}
{{- with .restartInPlace }}
restartPolicy: Never
restartPolicyRules:
  - action: RestartAllContainers
    exitCodes:
      operator: {{ .operator }}
      values: {{ toJson .values }}
{{- end }}
{{- with .terminationMessagePolicy }}
terminationMessagePolicy: {{ . }}
{{- end }}
{{- include "training-job.given" (dict "values" . "fields" (list "terminationMessagePath" "workingDir" "livenessProbe" "readinessProbe" "startupProbe" "lifecycle")) }}
{{- if $here }}
{{- include "training-job.program" . }}
{{- end }}
{{- include "training-job.envFrom" . }}
{{- with .ports }}
ports:
  {{- range . }}
  - name: {{ quote .name }}
    containerPort: {{ int64 .containerPort }}
    protocol: {{ default "TCP" .protocol }}
  {{- end }}
{{- end }}
{{- if or .resources.claims (and $here (or .resources.requests .resources.limits)) }}
resources:
  {{- include "training-job.resources" .resources | trim | nindent 2 }}
{{- end }}
{{- with .securityContext }}
securityContext:
  {{- include "training-job.fields" . | trim | nindent 2 }}
{{- end }}
{{- include "training-job.mounts" . }}
{{- include "training-job.devices" . }}
{{- end }}
{{- end }}

{{/* The volumes that the container has as devices. Takes the values. */}}
{{- define "training-job.devices" }}
{{- $devices := list }}
{{- range .volumes }}
  {{- with .devicePath }}{{ $devices = append $devices . }}{{ end }}
{{- end }}
{{- if $devices }}
volumeDevices:
  {{- range .volumes }}
  {{- if .devicePath }}
  - name: {{ quote .name }}
    devicePath: {{ quote .devicePath }}
  {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The container's mounts. Takes the values. */}}
{{- define "training-job.mounts" }}
{{- $mounted := false }}
{{- range .volumes }}{{ if or .mountPath .mounts }}{{ $mounted = true }}{{ end }}{{ end }}
{{- if or $mounted .shm.sizeLimit .files }}
volumeMounts:
  {{- if .shm.sizeLimit }}
  - name: dshm
    mountPath: /dev/shm
  {{- end }}
  {{- range .volumes }}
  {{- $volume := .name }}
  {{- range concat (ternary (list .) list (hasKey . "mountPath")) (default list .mounts) }}
  - name: {{ quote $volume }}
    mountPath: {{ quote .mountPath }}
    {{- with .subPath }}
    subPath: {{ quote . }}
    {{- end }}
    {{- with .subPathExpr }}
    subPathExpr: {{ quote . }}
    {{- end }}
    {{- if .readOnly }}
    readOnly: true
    {{- end }}
    {{- with .mountPropagation }}
    mountPropagation: {{ . }}
    {{- end }}
    {{- with .recursiveReadOnly }}
    recursiveReadOnly: {{ . }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- range $path, $file := .files }}
  - name: trainwright-files
    mountPath: {{ quote $path }}
    subPath: {{ quote $file.key }}
    readOnly: true
  {{- end }}
{{- end }}
{{- end }}

{{/*
The files of a ConfigMap that are text, or that are not. Takes a dict of "files", "field" (of the
ConfigMap) and "part" (of a file).
*/}}
{{- define "training-job.fileData" }}
{{- $part := .part }}
{{- $data := dict }}
{{- range .files }}
  {{- if hasKey . $part }}{{ $data = set $data .key (get . $part) }}{{ end }}
{{- end }}
{{- if $data }}
{{ .field }}:
  {{- range $key, $value := $data }}
  {{ quote $key }}: {{ include "training-job.text" (dict "text" $value "indent" 4) | include "training-job.unpadded" }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Which nodes. Takes a dict of "values" and "affinity" (whether there may be one). */}}
{{- define "training-job.placement" }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- include "training-job.strings" . | trim | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- range . }}
  - {{ include "training-job.fields" . | indent 4 | trim }}
  {{- end }}
{{- end }}
{{- if and .affinity .values.affinity }}
affinity: {{ toJson .values.affinity | replace "\x7f" "\\u007f" }}
{{- end }}
{{- end }}

{{/* Command, arguments and variables of the container. Takes the values. */}}
{{- define "training-job.program" }}
{{- with .command }}
command:
  {{- range . }}
  - {{ include "training-job.text" (dict "text" . "indent" 4) }}
  {{- end }}
{{- end }}
{{- with .args }}
args:
  {{- range . }}
  - {{ include "training-job.text" (dict "text" . "indent" 4) }}
  {{- end }}
{{- end }}
{{- $variables := concat (default list .firstEnv) (keys (default dict .env) | sortAlpha) (keys (default dict .secretEnv) | sortAlpha) (keys (default dict .fieldEnv) | sortAlpha) (keys (default dict .resourceEnv) | sortAlpha) (keys (default dict .configMapEnv) | sortAlpha) | uniq }}
{{- with $variables }}
env:
  {{- range $name := . }}
  - name: {{ quote $name }}
    {{- if hasKey (default dict $.env) $name }}
    value: {{ include "training-job.text" (dict "text" (get $.env $name) "indent" 6) }}
    {{- else }}
    valueFrom:
      {{- with get (default dict $.secretEnv) $name }}
      secretKeyRef:
        name: {{ quote .name }}
        key: {{ quote .key }}
        {{- if .optional }}
        optional: true
        {{- end }}
      {{- end }}
      {{- with get (default dict $.fieldEnv) $name }}
      fieldRef:
        fieldPath: {{ quote . }}
      {{- end }}
      {{- with get (default dict $.resourceEnv) $name }}
      resourceFieldRef:
        {{- include "training-job.fields" . | trim | nindent 8 }}
      {{- end }}
      {{- with get (default dict $.configMapEnv) $name }}
      configMapKeyRef:
        {{- include "training-job.fields" . | trim | nindent 8 }}
      {{- end }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* ConfigMaps and Secrets of which every key is a variable. Takes the values. */}}
{{- define "training-job.envFrom" }}
{{- with .envFrom }}
envFrom:
  {{- range . }}
  - {{ include "training-job.fields" . | indent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Requests, limits and claims of devices. Takes the resources. */}}
{{- define "training-job.resources" }}
{{- with .requests }}
requests:
  {{- include "training-job.strings" . | trim | nindent 2 }}
{{- end }}
{{- with .limits }}
limits:
  {{- include "training-job.strings" . | trim | nindent 2 }}
{{- end }}
{{- with .claims }}
claims: {{ toJson . }}
{{- end }}
{{- end }}

{{/* The pod's volumes. Takes the chart's scope. */}}
{{- define "training-job.volumes" }}
{{- $name := include "training-job.fullname" . }}
{{- with .Values }}
{{- if or .volumes .shm.sizeLimit .files }}
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
  {{- with .files }}
  - name: trainwright-files
    configMap:
      name: {{ quote $name }}
      {{- if contains "\"mode\":" (toJson .) }}
      items:
        {{- range . }}
        - key: {{ quote .key }}
          path: {{ quote .key }}
          {{- if hasKey . "mode" }}
          mode: {{ int64 .mode }}
          {{- end }}
        {{- end }}
      {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
