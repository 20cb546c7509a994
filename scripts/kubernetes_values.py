"""The values that fields of Kubernetes take where its schemas have text, by definition and field.

Types of k8s.io/api and the validation of k8s.io/kubernetes: values that a version added are there
for all, so that nothing is refused which some version accepts. A field takes the empty text
where its words start with '': the server writes a default there, or reads it as one.
`kubernetes_schemas.py` writes them into the schemas.
"""

from __future__ import annotations

from collections.abc import Mapping

_CORE, _META = "io.k8s.api.core.v1", "io.k8s.apimachinery.pkg.apis.meta.v1"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_PROTOCOL = "'' SCTP TCP UDP"
_CONTAINER = {
    "imagePullPolicy": "'' Always IfNotPresent Never",
    "terminationMessagePolicy": "'' FallbackToLogsOnError File",
}
_PROFILE = {"type": "Localhost RuntimeDefault Unconfined"}
_CLAIM = {"volumeMode": "Block Filesystem"}
_SCALING = {"type": "'' OnDelete RollingUpdate"}

_WORDS: Mapping[str, Mapping[str, str]] = {
    f"{_CORE}.AppArmorProfile": _PROFILE,
    f"{_CORE}.Container": _CONTAINER,
    f"{_CORE}.ContainerPort": {"protocol": _PROTOCOL},
    f"{_CORE}.ContainerResizePolicy": {
        "resourceName": "cpu memory",
        "restartPolicy": "NotRequired RestartContainer",
    },
    f"{_CORE}.ContainerRestartRule": {"action": "Restart RestartAllContainers"},
    f"{_CORE}.ContainerRestartRuleOnExitCodes": {"operator": "In NotIn"},
    f"{_CORE}.EphemeralContainer": _CONTAINER,
    f"{_CORE}.HTTPGetAction": {"scheme": "'' HTTP HTTPS"},
    f"{_CORE}.HostPathVolumeSource": {
        "type": "'' BlockDevice CharDevice Directory DirectoryOrCreate File FileOrCreate Socket"
    },
    f"{_CORE}.NodeSelectorRequirement": {"operator": "DoesNotExist Exists Gt In Lt NotIn"},
    f"{_CORE}.PersistentVolumeClaimSpec": _CLAIM,
    f"{_CORE}.PodCertificateProjection": {
        "keyType": "ECDSAP256 ECDSAP384 ECDSAP521 ED25519 RSA3072 RSA4096"
    },
    f"{_CORE}.PersistentVolumeSpec": {
        **_CLAIM,
        "persistentVolumeReclaimPolicy": "'' Delete Recycle Retain",
    },
    f"{_CORE}.PodSpec": {
        "dnsPolicy": "'' ClusterFirst ClusterFirstWithHostNet Default None",
        "preemptionPolicy": "Never PreemptLowerPriority",
        "restartPolicy": "'' Always Never OnFailure",
    },
    f"{_CORE}.SeccompProfile": _PROFILE,
    f"{_CORE}.SecurityContext": {"procMount": "Default Unmasked"},
    f"{_CORE}.ServicePort": {"protocol": _PROTOCOL},
    f"{_CORE}.ServiceSpec": {
        "externalTrafficPolicy": "'' Cluster Local",
        "internalTrafficPolicy": "Cluster Local",
        "ipFamilyPolicy": "PreferDualStack RequireDualStack SingleStack",
        "sessionAffinity": "'' ClientIP None",
        "type": "'' ClusterIP ExternalName LoadBalancer NodePort",
    },
    f"{_CORE}.Toleration": {
        "effect": "'' NoExecute NoSchedule PreferNoSchedule",
        "operator": "'' Equal Exists Gt Lt",
    },
    f"{_CORE}.TopologySpreadConstraint": {
        "nodeAffinityPolicy": "Honor Ignore",
        "nodeTaintsPolicy": "Honor Ignore",
        "whenUnsatisfiable": "DoNotSchedule ScheduleAnyway",
    },
    f"{_CORE}.VolumeMount": {
        "mountPropagation": "Bidirectional HostToContainer None",
        "recursiveReadOnly": "Disabled Enabled IfPossible",
    },
    f"{_META}.LabelSelectorRequirement": {"operator": "DoesNotExist Exists In NotIn"},
    "io.k8s.api.apps.v1.DaemonSetUpdateStrategy": _SCALING,
    "io.k8s.api.apps.v1.DeploymentStrategy": {"type": "'' Recreate RollingUpdate"},
    "io.k8s.api.apps.v1.StatefulSetSpec": {"podManagementPolicy": "'' OrderedReady Parallel"},
    "io.k8s.api.apps.v1.StatefulSetUpdateStrategy": _SCALING,
    "io.k8s.api.batch.v1.CronJobSpec": {"concurrencyPolicy": "'' Allow Forbid Replace"},
    "io.k8s.api.batch.v1.JobSpec": {
        "completionMode": "Indexed NonIndexed",
        "podReplacementPolicy": "Failed TerminatingOrFailed",
    },
    "io.k8s.api.batch.v1.PodFailurePolicyOnExitCodesRequirement": {"operator": "In NotIn"},
    "io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern": {
        "status": "'' False True Unknown"
    },
    "io.k8s.api.batch.v1.PodFailurePolicyRule": {"action": "Count FailIndex FailJob Ignore"},
    "io.k8s.api.networking.v1.HTTPIngressPath": {"pathType": "Exact ImplementationSpecific Prefix"},
    "io.k8s.api.networking.v1.NetworkPolicyPort": {"protocol": _PROTOCOL},
    "io.k8s.api.scheduling.v1.PriorityClass": {"preemptionPolicy": "Never PreemptLowerPriority"},
    "io.k8s.api.storage.v1.StorageClass": {
        "reclaimPolicy": "'' Delete Recycle Retain",
        "volumeBindingMode": "Immediate WaitForFirstConsumer",
    },
    f"{_CRD}.CustomResourceDefinitionSpec": {"scope": "Cluster Namespaced"},
    f"{_CRD}.CustomResourceConversion": {"strategy": "'' None Webhook"},
    f"{_CRD}.JSONSchemaProps": {
        "type": "'' array boolean integer number object string",
        "x-kubernetes-list-type": "atomic map set",
        "x-kubernetes-map-type": "atomic granular",
    },
}
VALUES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    definition: {
        field: tuple(word.strip("'") for word in words.split()) for field, words in fields.items()
    }
    for definition, fields in _WORDS.items()
}
