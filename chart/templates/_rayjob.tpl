{{/* Options of `ray start`; KubeRay adds those that follow from the pods. */}}
{{- define "training-job.startParams" -}}
{{- with .Values.ray.startParams }}
{{- include "training-job.strings" . | trim }}
{{- else -}}
{}
{{- end }}
{{- end }}

{{/*
The pod that submits the program when the cluster is ready, and follows what it prints. KubeRay's own
would lack what the namespace and the registry ask for; its command is KubeRay's. It goes wherever
there is room: only taints are tolerated as by the others.
*/}}
{{- define "training-job.submitter" -}}
{{- $values := pick .Values "image" "imagePullSecrets" "nameOverride" "commonLabels" "podAnnotations" "serviceAccountName" "podSecurityContext" "securityContext" "schedulerName" "priorityClassName" "tolerations" "terminationMessagePolicy" "terminationGracePeriodSeconds" }}
{{- $labels := merge (dict "trainwright.io/role" "submitter") .Values.podLabels }}
{{- $few := dict "requests" (dict "cpu" "500m" "memory" "200Mi") "limits" (dict "cpu" "1" "memory" "1Gi") }}
{{- $values = merge (dict "podLabels" $labels "automountServiceAccountToken" false "resources" $few "shm" dict) $values }}
{{- include "training-job.pod" (dict "root" (dict "Values" $values "Chart" .Chart "Release" .Release) "container" "ray-job-submitter" "restartPolicy" "Never") }}
{{- end }}
