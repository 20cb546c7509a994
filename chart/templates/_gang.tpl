{{/*
The specification of a JobSet with one Indexed Job, whose pods restart as one: a lost pod fails the
Job, and the JobSet makes all pods anew. With restartPolicy ExitCode the container decides by its exit
code whether that can help (128 and above). What the server would fill in is written out, since
Argo CD compares lists whole. Takes a dict of "root" (the chart's scope), "deadline" (seconds for
each attempt) and "elsewhere", which a TrainingRuntime sets: its TrainJob sets what runs.
*/}}
{{- define "training-job.jobset" -}}
{{- $values := .root.Values -}}
network:
  enableDNSHostnames: true
  publishNotReadyAddresses: true
failurePolicy:
  maxRestarts: {{ int64 (default 0 $values.runPolicy.backoffLimit) }}
  restartStrategy: {{ ternary "InPlaceRestart" "Recreate" (not (empty $values.restartInPlace)) }}
  {{- if or (eq $values.restartPolicy "ExitCode") .deadline }}
  rules:
    - name: permanent
      action: FailJobSet
      onJobFailureReasons:
        {{- if .deadline }}
        - DeadlineExceeded
        {{- end }}
        {{- if eq $values.restartPolicy "ExitCode" }}
        - PodFailurePolicy
        {{- end }}
  {{- end }}
{{- with $values.roles }}
successPolicy:
  operator: All
  targetReplicatedJobs:
    - node
{{- end }}
replicatedJobs:
  {{- range $name, $role := $values.roles }}
  {{- $own := omit $values "roles" }}
  {{- range $key, $value := $role }}{{ $own = set $own $key $value }}{{ end }}
  {{- $scope := dict "Values" $own "Chart" $.root.Chart "Release" $.root.Release }}
  {{- include "training-job.role" (dict "root" $scope "name" $name) | nindent 2 }}
  {{- end }}
  - name: node
    groupName: default
    replicas: 1
    {{- with $values.roles }}
    dependsOn:
      {{- range $name, $_ := . }}
      - name: {{ quote $name }}
        status: Ready
      {{- end }}
    {{- end }}
    template:
      {{- if .elsewhere }}
      metadata:
        labels:
          trainer.kubeflow.org/trainjob-ancestor-step: trainer
      {{- end }}
      spec:
        completionMode: Indexed
        completions: {{ int64 $values.nodes }}
        parallelism: {{ int64 $values.nodes }}
        backoffLimit: {{ ternary 2147483647 0 (not (empty $values.restartInPlace)) }}
        {{- with .deadline }}
        activeDeadlineSeconds: {{ int64 . }}
        {{- end }}
        {{- if or $values.restartInPlace (eq $values.restartPolicy "ExitCode") }}
        podReplacementPolicy: Failed
        {{- end }}
        {{- if eq $values.restartPolicy "ExitCode" }}
        podFailurePolicy:
          rules:
            {{- include "training-job.permanent" . | trim | nindent 12 }}
        {{- end }}
        template:
          {{- include "training-job.pod" (dict "root" .root "container" "node" "restartPolicy" "Never" "elsewhere" .elsewhere) | nindent 10 }}
{{- end }}

{{/*
The Job of a role, whose pods serve those of the job: it starts single containers again. Takes a dict
of "root" (the chart's scope, with the role's values) and "name".
*/}}
{{- define "training-job.role" -}}
- name: {{ quote .name }}
  groupName: default
  replicas: 1
  template:
    spec:
      completionMode: Indexed
      completions: {{ int64 .root.Values.nodes }}
      parallelism: {{ int64 .root.Values.nodes }}
      backoffLimit: {{ int64 (default 0 .root.Values.runPolicy.backoffLimit) }}
      template:
        {{- include "training-job.pod" (dict "root" .root "container" (quote .name) "restartPolicy" "OnFailure") | nindent 8 }}
{{- end }}

{{/* The rule of a podFailurePolicy for exit codes after which no retry helps. */}}
{{- define "training-job.permanent" }}
- action: FailJob
  onExitCodes:
    containerName: node
    operator: In
    values: {{ untilStep 1 128 1 | toJson }}
{{- end }}
