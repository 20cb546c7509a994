{{/*
Name of the job object. Controllers append at most "-worker-999" to it, those that make a JobSet
"-node-0-999-abcde", KubeRay "-abcde-head-abcde", and the result must be a DNS label of 63 characters, so the usual Helm name is
cut to 52 or 46. Operators want a letter in front, while a release may start with a digit.
*/}}
{{- define "training-job.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{ regexReplaceAll "^[0-9]" $full "job-${0}" | replace "." "-" | trunc (ternary 46 52 (has .Values.target (list "jobset" "trainjob" "rayjob"))) | trimAll "-" }}
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

{{/*
A text in quotes; one of several lines as a literal block, which people can read. Takes a dict of
"text" and "indent", that of the block's lines. What a block would not give back as it is stays in
quotes: blanks in front, lines of blanks, characters that YAML does not allow or breaks lines at.
*/}}
{{- define "training-job.text" -}}
{{- $odd := `^[ \t\n]|\n\n$|(?m:^[ \t]+$)|[^\t\n -~\x{A0}-\x{2027}\x{202A}-\x{D7FF}\x{E000}-\x{FEFE}\x{FF00}-\x{FFFD}\x{10000}-\x{10FFFF}]` -}}
{{- if and (contains "\n" .text) (not (regexMatch $odd .text)) -}}
|{{ ternary "" "-" (hasSuffix "\n" .text) }}{{ .text | trimSuffix "\n" | nindent (int .indent) }}
{{- else -}}
{{ quote .text }}
{{- end -}}
{{- end }}

{{/*
Data as people would write it: mappings in the order of their keys, each on a line below its key.
Takes a mapping, a list or a scalar; a mapping or list that is not empty begins with a line break.
*/}}
{{- define "training-job.tree" -}}
{{- $words := list "y" "yes" "n" "no" "on" "off" "true" "false" "null" }}{{/* no texts to YAML */}}
{{- if and (kindIs "map" .) . }}
{{- range $key, $value := . }}
{{ ternary $key (quote $key) (and (regexMatch `^[a-z][A-Za-z]+$` $key) (not (has $key $words))) }}:{{ include "training-job.branch" $value }}
{{- end }}
{{- else if and (kindIs "slice" .) . }}
{{- range . }}
{{- if kindIs "string" . }}
- {{ include "training-job.text" (dict "text" . "indent" 2) }}
{{- else }}
- {{ include "training-job.tree" . | trimPrefix "\n" | indent 2 | trimPrefix "  " }}
{{- end }}
{{- end }}
{{- else if kindIs "string" . }}
{{- include "training-job.text" (dict "text" . "indent" 2) }}
{{- else }}
{{- toJson . }}
{{- end }}
{{- end }}

{{/* The same after a key. */}}
{{- define "training-job.branch" -}}
{{- if and (or (kindIs "map" .) (kindIs "slice" .)) . -}}
{{ include "training-job.tree" . | trimPrefix "\n" | nindent 2 }}
{{- else }} {{ include "training-job.tree" . }}
{{- end }}
{{- end }}

{{/* Lines without the blanks that indentation has put into empty ones. */}}
{{- define "training-job.unpadded" -}}
{{ regexReplaceAll "(?m)^ +$" . "" }}
{{- end }}

{{/*
A map of fields whose names the schema knows: strings quoted, the rest as JSON, which every YAML
reader agrees on. (Of what toJson leaves bare and YAML does not allow, the schema refuses all but
DEL, which the two free-form places escape.)
*/}}
{{- define "training-job.fields" -}}
{{- range $key, $value := . }}
{{ $key }}: {{ if kindIs "string" $value }}{{ quote $value }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- end }}

{{/*
Labels of the object or of its pods. Takes a dict of "root" (the chart's scope), "labels" (those of
one of the two only) and "chart" (whether to name the chart). Values win over the chart's
own.
*/}}
{{- define "training-job.labels" -}}
{{- $own := dict "app.kubernetes.io/name" (default .root.Chart.Name .root.Values.nameOverride) "app.kubernetes.io/instance" .root.Release.Name "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- if .chart -}}
{{- $own = set $own "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63) -}}
{{- end -}}
{{- include "training-job.strings" (merge (dict) .labels .root.Values.commonLabels $own) -}}
{{- end }}

{{/*
Metadata of the job object. Objects that Helm manages name their chart; in files kept in git that
label would change with each version of the chart.
*/}}
{{- define "training-job.metadata" -}}
{{- $plain := not (hasKey .Values.commonLabels "app.kubernetes.io/managed-by") -}}
name: {{ include "training-job.fullname" . | quote }}
namespace: {{ quote .Release.Namespace }}
labels:
  {{- include "training-job.labels" (dict "root" . "labels" .Values.labels "chart" $plain) | trim | nindent 2 }}
{{- with .Values.annotations }}
annotations:
  {{- include "training-job.strings" . | trim | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Metadata of an object that the job needs. Takes a dict of "root" (the chart's scope), "name" and
"annotations". It is applied before the job, which Argo CD does in the order of waves; in the same
wave as the job when "wave" is empty.
*/}}
{{- define "training-job.supporting" -}}
{{- $plain := not (hasKey .root.Values.commonLabels "app.kubernetes.io/managed-by") -}}
{{- $annotations := default dict .annotations -}}
{{- with .wave }}{{ $annotations = merge $annotations (dict "argocd.argoproj.io/sync-wave" .) }}{{ end -}}
name: {{ quote .name }}
namespace: {{ quote .root.Release.Namespace }}
labels:
  {{- include "training-job.labels" (dict "root" .root "labels" (default dict .labels) "chart" $plain) | trim | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- include "training-job.strings" . | trim | nindent 2 }}
{{- end }}
{{- end }}

{{/* Labels that the pods of this run have and no others. */}}
{{- define "training-job.selector" -}}
app.kubernetes.io/instance: {{ default .Release.Name (get .Values.commonLabels "app.kubernetes.io/instance") | quote }}
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
