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

{{/*
How much the container gets, if any. Takes a dict of "values" and "gpu", as for the service: Docker
gives the first GPUs of the machine to each container that requests a number of them.
*/}}
{{- define "training-job.composeDeploy" }}
{{- $gpu := int .gpu }}
{{- with .values }}
{{- $gpus := get (default dict .resources.limits) "nvidia.com/gpu" }}
{{- if .runPolicy.suspend }}
replicas: 0
{{- end }}
{{- if or .resources.requests .resources.limits }}
resources:
  {{- with include "training-job.composeAmounts" (default dict .resources.limits) | trim }}
  limits:
    {{- nindent 4 . }}
  {{- end }}
  {{- $requests := include "training-job.composeAmounts" (default dict .resources.requests) | trim }}
  {{- if or $requests $gpus }}
  reservations:
    {{- with $requests }}
    {{- nindent 4 . }}
    {{- end }}
    {{- with $gpus }}
    devices:
      - driver: nvidia
        {{- if lt $gpu 0 }}
        count: {{ . }}
        {{- else }}
        device_ids:
          {{- range untilStep $gpu (add $gpu (int .) | int) 1 }}
          - {{ toString . | quote }}
          {{- end }}
        {{- end }}
        capabilities: [gpu]
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
One container, indented as in a file. Takes a dict of "root" (the chart's scope, with the values of
its group), "gpu" (the first GPU of the machine that is its own, -1 for any) and "role", which is
empty for what trains.
*/}}
{{- define "training-job.service" }}
{{- with .root }}
{{- $pod := default dict .Values.podSecurityContext }}
{{- $container := default dict .Values.securityContext }}
    image: {{ include "training-job.image" .Values.image | quote }}
    pull_policy: {{ get (dict "Always" "always" "IfNotPresent" "missing" "Never" "never") .Values.image.pullPolicy }}
    labels:
      {{- include "training-job.labels" (dict "root" . "labels" (merge (dict) .Values.podLabels .Values.labels)) | trim | replace "$" "$$" | nindent 6 }}
    {{- with merge (dict) .Values.podAnnotations .Values.annotations }}
    annotations:
      {{- include "training-job.strings" . | trim | replace "$" "$$" | nindent 6 }}
    {{- end }}
    {{- with .Values.hostAliases }}
    extra_hosts:
      {{- range $alias := . }}
      {{- range $alias.hostnames }}
      - {{ printf "%s:%s" . $alias.ip | quote | replace "$" "$$" }}
      {{- end }}
      {{- end }}
    {{- end }}
    {{- with .Values.workingDir }}
    working_dir: {{ quote . | replace "$" "$$" }}
    {{- end }}
    {{- with .Values.command }}
    entrypoint:
      {{- range . }}
      - {{ include "training-job.text" (dict "text" . "indent" 8) | replace "$" "$$" | include "training-job.unpadded" }}
      {{- end }}
    {{- end }}
    {{- with .Values.args }}
    command:
      {{- range . }}
      - {{ include "training-job.text" (dict "text" . "indent" 8) | replace "$" "$$" | include "training-job.unpadded" }}
      {{- end }}
    {{- end }}
    {{- if or .Values.env .Values.secretEnv }}
    environment:
      {{- range $name, $value := .Values.env }}
      {{ quote $name }}: {{ include "training-job.text" (dict "text" $value "indent" 8) | replace "$" "$$" | include "training-job.unpadded" }}
      {{- end }}
      {{- range $variable, $secret := .Values.secretEnv }}
      {{ quote $variable }}: {{ ternary (printf "${%s:-}" $variable) (printf "${%s:?set it to the key %s of the Secret %s}" $variable $secret.key $secret.name) (default false $secret.optional) | quote }}
      {{- end }}
    {{- end }}
    {{- if hasKey $pod "runAsUser" }}
    user: {{ printf "%d%s" (int64 $pod.runAsUser) (ternary (printf ":%d" (int64 $pod.runAsGroup)) "" (hasKey $pod "runAsGroup")) | quote }}
    {{- end }}
    {{- if hasKey $pod "fsGroup" }}
    group_add:
      - {{ printf "%d" (int64 $pod.fsGroup) | quote }}
    {{- end }}
    {{- with $container.capabilities }}
    {{- with .drop }}
    cap_drop:
      {{- range . }}
      - {{ . }}
      {{- end }}
    {{- end }}
    {{- with .add }}
    cap_add:
      {{- range . }}
      - {{ . }}
      {{- end }}
    {{- end }}
    {{- end }}
    {{- $options := list (printf "no-new-privileges:%t" (not $container.allowPrivilegeEscalation)) }}
    {{- if eq "Unconfined" (default dict $pod.seccompProfile).type }}
    {{- $options = append $options "seccomp:unconfined" }}
    {{- end }}
    {{- with $options }}
    security_opt:
      {{- range . }}
      - {{ . }}
      {{- end }}
    {{- end }}
    {{- if $container.privileged }}
    privileged: true
    {{- end }}
    {{- if $container.readOnlyRootFilesystem }}
    read_only: true
    {{- end }}
    ipc: private
    {{- with .Values.shm.sizeLimit }}
    shm_size: {{ include "training-job.bytes" . }}
    {{- end }}
    restart: {{ with .Values.runPolicy.backoffLimit }}{{ printf "on-failure:%d" (int64 .) | quote }}{{ else }}"no"{{ end }}
    stop_grace_period: {{ printf "%ds" (int64 .Values.terminationGracePeriodSeconds) }}
    {{- if .Values.networkPolicy.enabled }}
    network_mode: none
    {{- else if .Values.hostNetwork }}
    network_mode: host
    {{- end }}
    {{- if $.role }}
    networks:
      default:
        aliases:
          - {{ quote $.role }}
    {{- with .Values.ports }}
    expose:
      {{- range . }}
      - {{ printf "%d" (int64 .containerPort) | quote }}
      {{- end }}
    {{- end }}
    {{- include "training-job.healthcheck" .Values }}
    {{- else }}
    {{- with ternary list .Values.ports .Values.hostNetwork }}
    ports:
      {{- range . }}
      - {{ printf "127.0.0.1:%d:%d" (int64 .containerPort) (int64 .containerPort) | quote }}
      {{- end }}
    {{- end }}
    {{- end }}
    {{- with .Values.files }}
    configs:
      {{- range $path, $file := . }}
      - source: {{ quote $file.key }}
        target: {{ quote $path | replace "$" "$$" }}
        {{- if hasKey $file "mode" }}
        mode: {{ int64 $file.mode }}
        {{- end }}
      {{- end }}
    {{- end }}
    {{- with include "training-job.composeMounts" .Values.volumes | trim }}
    volumes:
      {{- nindent 6 . }}
    {{- end }}
    {{- with include "training-job.composeDeploy" (dict "values" .Values "gpu" $.gpu) | trim }}
    deploy:
      {{- nindent 6 . }}
    {{- end }}
{{- end }}
{{- end }}

{{/*
When a service answers: its readiness probe, which Docker runs inside the container, as often as the
startup probe may fail: what waits for the service starts then, or not at all. Takes the values.
*/}}
{{- define "training-job.healthcheck" }}
{{- with .readinessProbe }}
{{- $test := list "python3" "-c" }}
{{- if .exec }}
  {{- $test = .exec.command }}
{{- else if .httpGet }}
  {{- $test = append $test (printf "import urllib.request as r; r.urlopen('http://127.0.0.1:%d%s', timeout=4)" (int64 .httpGet.port) (.httpGet.path | replace "'" "%27" | replace `\` "%5C")) }}
{{- else }}
  {{- $test = append $test (printf "import socket; socket.create_connection(('127.0.0.1', %d), 4)" (int64 .tcpSocket.port)) }}
{{- end }}
    healthcheck:
      test:
        {{- range prepend $test "CMD" }}
        - {{ include "training-job.text" (dict "text" . "indent" 10) | replace "$" "$$" | include "training-job.unpadded" }}
        {{- end }}
      {{- $started := default (dict "periodSeconds" .periodSeconds "failureThreshold" 3) $.startupProbe }}
      interval: {{ printf "%ds" (int64 $started.periodSeconds) }}
      timeout: 5s
      retries: {{ int64 $started.failureThreshold }}
{{- end }}
{{- end }}
