{{/*
A pod template with the values' patches, each over the result of the one before; byte for byte what
it is where there are none. Takes a dict of "values" and "pod" (its text).
*/}}
{{- define "training-job.patched" -}}
{{- if .values.podPatches }}
{{- $pod := fromYaml .pod }}
{{- range .values.podPatches }}
{{- include "training-job.patch" (dict "into" $pod "patch" .) }}
{{- end }}
{{- include "training-job.yaml" $pod | trim }}
{{- else }}
{{- .pod }}
{{- end }}
{{- end }}

{{/*
A strategic merge patch, with the results of `kubectl patch --type strategic`, order of lists
included. Mappings merge, null removes, lists with a merge key merge item by item, other lists are
replaced. Takes a dict of "into", the mapping that it changes in place, and "patch".
https://kubernetes.io/docs/tasks/manage-kubernetes-objects/update-api-object-kubectl-patch/
*/}}
{{- define "training-job.patch" }}
{{- $into := .into }}
{{- $merged := include "training-job.mergeKeys" nil | fromYaml }}
{{- range $key, $value := .patch }}
{{- if hasPrefix "$" $key }}
{{- fail (printf "podPatches: %s is not supported here, only $patch: delete and $patch: replace are" $key) }}
{{- else if kindIs "invalid" $value }}
{{- $_ := unset $into $key }}
{{- else if kindIs "map" $value }}
{{- $below := get $into $key }}
{{- if or (not (kindIs "map" $below)) (include "training-job.directive" $value) }}
{{- $below = dict }}
{{- end }}
{{- if ne (include "training-job.directive" $value) "delete" }}
{{- include "training-job.patch" (dict "into" $below "patch" (omit $value "$patch")) }}
{{- end }}
{{- $_ := set $into $key $below }}
{{- else if and (kindIs "slice" $value) (hasKey $merged $key) }}
{{- include "training-job.patchList" (dict "into" $into "list" $key "patch" $value "key" (get $merged $key)) }}
{{- else }}
{{- $_ := set $into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{/* The directive of a mapping in a patch: delete, replace or nothing. */}}
{{- define "training-job.directive" -}}
{{- if hasKey . "$patch" }}
{{- if not (has (get . "$patch") (list "delete" "replace")) }}
{{- fail (printf "podPatches: $patch is %v, it must be delete or replace" (get . "$patch")) }}
{{- end }}
{{- get . "$patch" }}
{{- end }}
{{- end }}

{{/*
A list whose items are known by a key. Takes a dict of "into", the mapping that has it, "list" (its
name there), "patch" and "key".

The items of the patch come in its order, each behind those that were in front of it before; what
is new is in front of what is left.
*/}}
{{- define "training-job.patchList" }}
{{- $key := .key }}
{{- $list := .list }}
{{- $items := list }}
{{- if kindIs "slice" (get .into .list) }}
{{- $items = get .into .list }}
{{- end }}
{{- $replaced := false }}
{{- $deleted := list }}
{{- $patches := list }}
{{- range .patch }}
{{- if not (kindIs "map" .) }}
{{- fail (printf "podPatches: every item of %s is a mapping with its %s" $list $key) }}
{{- end }}
{{- $directive := include "training-job.directive" . }}
{{- if eq $directive "replace" }}
{{- $replaced = true }}
{{- else if not (hasKey . $key) }}
{{- fail (printf "podPatches: an item of %s has no %s" $list $key) }}
{{- else if eq $directive "delete" }}
{{- $deleted = append $deleted (get . $key | toString) }}
{{- else }}
{{- $patches = append $patches . }}
{{- end }}
{{- end }}
{{- $kept := list }}
{{- range $replaced | ternary list $items }}
{{- if not (has (get . $key | toString) $deleted) }}
{{- $kept = append $kept . }}
{{- end }}
{{- end }}
{{- /* Where each item was: of several with one key, the first. */}}
{{- $place := dict }}
{{- range $index, $item := $kept }}
{{- $name := get $item $key | toString }}
{{- if not (hasKey $place $name) }}
{{- $_ := set $place $name $index }}
{{- end }}
{{- end }}
{{- /* Items are changed where they are, and what is new is made. */}}
{{- $known := $kept }}
{{- $order := list }}
{{- range $patches }}
{{- $name := get . $key | toString }}
{{- $target := dict }}
{{- $found := false }}
{{- range $known }}
{{- if and (not $found) (eq (get . $key | toString) $name) }}
{{- $found = true }}
{{- $target = . }}
{{- end }}
{{- end }}
{{- include "training-job.patch" (dict "into" $target "patch" .) }}
{{- if not $found }}
{{- $known = append $known $target }}
{{- end }}
{{- if not (has $name $order) }}
{{- $order = append $order $name }}
{{- end }}
{{- end }}
{{- $rest := list }}
{{- range $kept }}
{{- if not (has (get . $key | toString) $order) }}
{{- $rest = append $rest . }}
{{- end }}
{{- end }}
{{- $result := list }}
{{- range $name := $order }}
{{- $later := list }}
{{- range $rest }}
{{- if and (hasKey $place $name) (lt (get $place (get . $key | toString) | int) (get $place $name | int)) }}
{{- $result = append $result . }}
{{- else }}
{{- $later = append $later . }}
{{- end }}
{{- end }}
{{- $rest = $later }}
{{- range $known }}
{{- if eq (get . $key | toString) $name }}
{{- $result = append $result . }}
{{- end }}
{{- end }}
{{- end }}
{{- $_ := set .into .list (concat $result $rest) }}
{{- end }}

{{/*
Data as YAML that every reader takes for the same. Strings are quoted, and so are keys that could
be anything but a word.
*/}}
{{- define "training-job.yaml" }}
{{- if and (kindIs "map" .) . }}
{{- range $key, $value := . }}
{{- $plain := and (regexMatch "^[a-z][A-Za-z]{2,}$" $key) (not (has $key (list "true" "false" "null" "yes" "off"))) }}
{{ $plain | ternary $key (quote $key) }}:
{{- if and (or (kindIs "map" $value) (kindIs "slice" $value)) $value }}
{{- include "training-job.yaml" $value | trim | nindent 2 }}
{{- else }} {{ include "training-job.yaml" $value | trim }}
{{- end }}
{{- end }}
{{- else if and (kindIs "slice" .) . }}
{{- range . }}
- {{ include "training-job.yaml" . | trim | indent 2 | trim }}
{{- end }}
{{- else if kindIs "slice" . }}
{{- "[]" }}
{{- else if kindIs "string" . }}
{{- quote . }}
{{- else }}
{{- toJson . }}
{{- end }}
{{- end }}
