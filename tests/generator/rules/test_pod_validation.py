"""Fields of pods that the schemas of Kubernetes accept and its API server does not.

https://github.com/kubernetes/kubernetes/blob/master/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from repository import Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.validation import kubernetes_schemas
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules.api_server import objects, pods, volumes
from trainwright.rules.registry import RULES

POD = "{kind: Pod, apiVersion: v1, spec: {%s containers: [{name: a, image: a:1, %s}]}}"


def said(
    container: str = "", spec: str = "", version: str = "1.37", rule: str = "TW739"
) -> list[str]:
    body = yaml.safe_load(POD % (f"{spec}," if spec else "", container))
    return [
        hit.message for hit in RULES[rule].run(subject_of(Manifest(body=body), nowhere(version)))
    ]


ENV = "env: [{name: A, valueFrom: {%s}}]"
MOUNT = "volumeMounts: [{name: d, %s}]"
AFFINITY = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: %s}}}"
NEAR = "affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: %s, podAffinityTerm: {topologyKey: %s}}]}}"
SPREAD = "topologySpreadConstraints: [{maxSkew: %s, topologyKey: zone, whenUnsatisfiable: %s}]"
TOGETHER = "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, %s}]}}"
VOLUME = "volumes: [{name: d, %s}]"
FILE = "downwardAPI: {items: [{path: %s}]}"
CLAIM = "ephemeral: {volumeClaimTemplate: {spec: {%s}}}"

CONTAINERS = [
    ("ports: [{containerPort: 70000}]", "containerPort is 70000, and can be 1 to 65535"),
    ("ports: [{containerPort: 0}]", "containerPort is 0, and can be 1 to 65535"),
    ("ports: [{containerPort: 65535, hostPort: 0}]", ""),
    ("ports: [{containerPort: 80, hostPort: 65536}]", "hostPort is 65536, and can be 0 to 65535"),
    ("ports: [{name: b, containerPort: 80}, {name: b, containerPort: 81}]", 'ports has the name "b" twice'),
    ("ports: [{containerPort: 80}, {containerPort: 81}]", ""),
    ("ports: [{containerPort: 80, hostPort: 90}, {containerPort: 81, hostPort: 90}]", "hostPort 90 is taken twice"),
    ("ports: [{containerPort: 80, hostPort: 90}, {containerPort: 81, hostPort: 90, protocol: UDP}]", ""),
    (ENV % "fieldRef: {fieldPath: spec.hostname}", 'fieldPath: "spec.hostname" is not one of metadata.name, '),
    (ENV % "fieldRef: {fieldPath: metadata.labels}", 'fieldPath: "metadata.labels" is not one of '),
    (ENV % "fieldRef: {fieldPath: \"metadata.labels['a/b']\"}", ""),
    (ENV % "fieldRef: {fieldPath: \"metadata.labels['a b']\"}", "the key of \"metadata.labels['a b']\" is not a qualified name"),
    (ENV % "fieldRef: {fieldPath: status.podIPs}", ""),
    (ENV % "resourceFieldRef: {resource: limits.gpu}", 'resource: "limits.gpu" is not one of limits.cpu, '),
    (ENV % "resourceFieldRef: {resource: limits.nvidia.com/gpu}", 'resource: "limits.nvidia.com/gpu" is not'),
    (ENV % "resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 1Mi}", ""),
    (ENV % "resourceFieldRef: {resource: limits.cpu, divisor: 1m}", ""),
    (ENV % "resourceFieldRef: {resource: limits.cpu, divisor: 1Gi}", "divisor is 1Gi, and can be 1 or 1m"),
    (ENV % "resourceFieldRef: {resource: limits.memory, divisor: 2Gi}", "divisor is 2Gi, and can be 1, 1k"),
    (ENV % "configMapKeyRef: {key: a}", "name is missing"),
    (ENV % "secretKeyRef: {name: A_b, key: a}", 'name: "A_b" is not a DNS subdomain'),
    (ENV % "secretKeyRef: {name: a, key: a/b}", 'key: "a/b" is not a key of a ConfigMap or Secret'),
    (ENV % "secretKeyRef: {name: a, key: b}, configMapKeyRef: {name: a, key: b}", "needs one of fieldRef"),
    (ENV % "", "needs one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef, and has none of them"),
    ("env: [{name: A=B, value: c}]", 'name: "A=B" is not the name of a variable'),
    ("env: [{name: 1 2, value: c}]", ""),
    ("envFrom: [{configMapRef: {}}]", "name is missing"),
    ("envFrom: [{}]", "needs one of configMapRef, secretRef, and has none of them"),
    ("envFrom: [{prefix: A_, secretRef: {name: a}}]", ""),
    (MOUNT % "mountPath: ''", "mountPath is empty"),
    (MOUNT % "mountPath: a", ""),  # the API server takes it
    (MOUNT % "mountPath: /a, subPath: ../b", 'subPath: "../b" has a step upwards (..)'),
    (MOUNT % "mountPath: /a, subPath: /b", 'subPath: "/b" is not a relative path'),
    (MOUNT % "mountPath: /a, subPath: b..c/.d", ""),
    (MOUNT % "mountPath: /a, subPathExpr: $(A)/../b", 'subPathExpr: "$(A)/../b" has a step upwards (..)'),
    (MOUNT % "mountPath: /a, subPath: b, subPathExpr: c", "subPath and subPathExpr exclude each other"),
    (MOUNT % "mountPath: /a, mountPropagation: Bidirectional", "mountPropagation: Bidirectional needs a privileged container"),
    ("securityContext: {privileged: true}, " + MOUNT % "mountPath: /a, mountPropagation: Bidirectional", ""),
    (MOUNT % "mountPath: /a, recursiveReadOnly: Enabled", "recursiveReadOnly: Enabled needs readOnly: true"),
    (MOUNT % "mountPath: /a, readOnly: true, recursiveReadOnly: Enabled", ""),
    (MOUNT % "mountPath: /a" + ", volumeDevices: [{name: d, devicePath: /dev/a}]", '"d" is mounted, and cannot be a device, too'),
    ("volumeDevices: [{name: d, devicePath: /dev/../a}]", 'devicePath: "/dev/../a" has a step upwards (..)'),
    ("securityContext: {privileged: true, allowPrivilegeEscalation: false}", "allowPrivilegeEscalation: false and privileged: true exclude each other"),
    ("securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}", "allowPrivilegeEscalation: false and CAP_SYS_ADMIN exclude each other"),
    ("securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [IPC_LOCK]}}", ""),
    ("securityContext: {runAsUser: -1}", "runAsUser is -1, and can be 0 to 2147483647"),
    ("securityContext: {seccompProfile: {type: Localhost}}", "type is Localhost, and there is no localhostProfile"),
    ("securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a.json}}", "localhostProfile needs type: Localhost"),
    ("securityContext: {seccompProfile: {type: Localhost, localhostProfile: /a.json}}", 'localhostProfile: "/a.json" is not a relative path'),
    ("securityContext: {appArmorProfile: {type: Localhost}}", "type is Localhost, and there is no localhostProfile"),
    ("resources: {limits: {gpu: 1}}", '"gpu" is not a resource: an extended resource has a domain, as nvidia.com/gpu'),
    ("resources: {limits: {storage: 1Gi}}", '"storage" is not a resource'),
    ("resources: {limits: {nvidia.com/gpu: 0.5}}", "nvidia.com/gpu is 0.5, and is counted in whole numbers"),
    ("resources: {limits: {nvidia.com/gpu: 500m}}", "nvidia.com/gpu is 500m, and is counted in whole numbers"),
    ("resources: {limits: {NVIDIA.com/gpu: 1}}", 'the resource "NVIDIA.com/gpu" is not a DNS subdomain'),
    ("resources: {requests: {cpu: '-1'}}", "cpu is -1, and cannot be negative"),
    ("resources: {limits: {$GPU: 1, hugepages-2Mi: 4Mi, ephemeral-storage: 1Gi}}", ""),
    ("restartPolicy: Always", ""),
    # what a chart prints of a value that nobody set
    ("name: ''", "name is empty"),
    ("env: [{name: '', value: a}]", "name is empty"),
    (ENV % "fieldRef: {fieldPath: ''}", "fieldPath is empty"),
    ("livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: A, value: ''}]}}", ""),
    ("livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: A B, value: a}]}}", 'name: "A B" is not the name of a header'),
    ("lifecycle: {preStop: {httpGet: {port: 80, httpHeaders: [{name: 'A:', value: a}]}}}", 'name: "A:" is not the name of a header'),
    ("imagePullPolicy: '', terminationMessagePolicy: ''", ""),  # the server writes a default
    ("image: ' a:1 '", 'image: " a:1 " has white space around it'),
    ("env: [{name: A, value: a, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", ""),  # TW751 says so
    ("restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]", "restartPolicyRules need a restartPolicy beside them"),
    ("restartPolicy: Never, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [1]}}]", ""),
    (f"restartPolicy: Never, restartPolicyRules: [{', '.join(['{action: Restart, exitCodes: {operator: In, values: [1]}}'] * 21)}]", "restartPolicyRules has 21 items, and can have 20"),
    ("restartPolicy: Sometimes", 'restartPolicy: "Sometimes" is not one of Always, Never and OnFailure'),
    ("restartPolicy: ''", 'restartPolicy: "" is not one of Always, Never and OnFailure'),
    ("resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]", ""),
    ("lifecycle: {stopSignal: SIGHUP}", "stopSignal needs os.name"),
    ("securityContext: {appArmorProfile: {type: Localhost, localhostProfile: 'a '}}", 'localhostProfile: "a " has white space around it'),
]  # fmt: skip
SPECS = [
    ("overhead: {cpu: 1}", "overhead is that of a RuntimeClass, and needs runtimeClassName"),
    ("runtimeClassName: kata, overhead: {cpu: 1}", ""),
    ("resources: {limits: {nvidia.com/gpu: 1}}", "nvidia.com/gpu is for containers: a pod as a whole has cpu, memory, huge pages"),
    ("resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}", ""),
    ("activeDeadlineSeconds: 0", "activeDeadlineSeconds is 0, and can be 1 to 2147483647"),
    ("nodeName: Node_1", 'nodeName: "Node_1" is not a DNS subdomain'),
    ("hostPID: true, shareProcessNamespace: true", "shareProcessNamespace and hostPID exclude each other"),
    ("hostNetwork: true, hostUsers: false", "hostUsers: false and hostNetwork exclude each other"),
    ("securityContext: {fsGroup: -1}", "fsGroup is -1, and can be 0 to 2147483647"),
    ("securityContext: {supplementalGroups: [1, -1]}", "supplementalGroups has -1, and can have 0 to 2147483647"),
    ("securityContext: {fsGroupChangePolicy: Never}", 'fsGroupChangePolicy: "Never" is not one of Always and OnRootMismatch'),
    ("securityContext: {sysctls: [{name: net.core.somaxconn, value: '1'}, {name: net.core.somaxconn, value: '2'}]}", 'sysctls has the name "net.core.somaxconn" twice'),
    ("securityContext: {sysctls: [{name: Net.core, value: '1'}]}", 'name: "Net.core" is not the name of a sysctl'),
    ("securityContext: {sysctls: [{name: kernel/shm_rmid_forced, value: '1'}]}", ""),
    ("hostNetwork: true, securityContext: {sysctls: [{name: net.core.somaxconn, value: '1'}]}", "net.core.somaxconn is the node's with hostNetwork: true"),
    ("hostIPC: true, securityContext: {sysctls: [{name: kernel.shmmax, value: '1'}]}", "kernel.shmmax is the node's with hostIPC: true"),
    ("tolerations: [{operator: Exists}]", ""),
    ("tolerations: [{effect: NoSchedule}]", "a toleration without a key needs operator: Exists"),
    ("tolerations: [{key: a b, operator: Exists}]", 'key: "a b" is not a qualified name'),
    ("tolerations: [{key: a, operator: Exists, value: b}]", "operator: Exists compares no value"),
    ("tolerations: [{key: a, value: b c}]", 'value: "b c" is not the value of a label'),
    ("tolerations: [{key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]", "tolerationSeconds needs effect: NoExecute"),
    ("tolerations: [{key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]", ""),
    ("hostAliases: [{ip: 10.0.0.256, hostnames: [a]}]", 'ip: "10.0.0.256" is not an IP address'),
    ("hostAliases: [{ip: nas.example.com, hostnames: [a]}]", 'ip: "nas.example.com" is not an IP address'),
    ("hostAliases: [{ip: 'fd00::1', hostnames: [A_b]}]", 'hostnames: "A_b" is not a DNS subdomain'),
    ("dnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]}", "nameservers has 4 items, and can have 3"),
    ("dnsConfig: {nameservers: [dns.example.com]}", 'nameservers: "dns.example.com" is not an IP address'),
    ("dnsConfig: {nameservers: ['::1'], searches: [a.b., _srv.c, '.']}", ""),
    ("dnsConfig: {searches: [a b]}", 'searches: "a b" is not a domain to search'),
    (f"dnsConfig: {{searches: [{', '.join(f's{i}' for i in range(33))}]}}", "searches has 33 items, and can have 32"),
    ("dnsConfig: {options: [{value: '2'}]}", "name is missing"),
    ("resourceClaims: [{name: a}]", "needs one of resourceClaimName, resourceClaimTemplateName, and has none of them"),
    (SPREAD % (0, "DoNotSchedule"), "maxSkew is 0, and can be 1 or more"),
    (SPREAD % ("1, minDomains: 0", "DoNotSchedule"), "minDomains is 0, and can be 1 or more"),
    (SPREAD % ("1, minDomains: 2", "ScheduleAnyway"), "minDomains needs whenUnsatisfiable: DoNotSchedule"),
    (SPREAD % ("1, matchLabelKeys: [a]", "ScheduleAnyway"), "matchLabelKeys needs a labelSelector"),
    (SPREAD % ("1, labelSelector: {matchLabels: {a: b c}}", "ScheduleAnyway"), "the value \"b c\" of a is not the value of a label"),
    (SPREAD % ("1, labelSelector: {matchExpressions: [{key: a, operator: In}]}", "ScheduleAnyway"), "operator: In needs values"),
    (SPREAD % ("1, labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}", "ScheduleAnyway"), "operator: Exists compares no values"),
    (AFFINITY % "[]", "nodeSelectorTerms is empty"),
    (AFFINITY % "[{matchExpressions: [{key: a, operator: In}]}]", "operator: In needs values"),
    (AFFINITY % "[{matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]}]", "operator: Gt needs one value, and has 2"),
    (AFFINITY % "[{matchExpressions: [{key: a/b/c, operator: Exists}]}]", 'key: "a/b/c" is not a DNS subdomain'),
    (AFFINITY % "[{matchFields: [{key: metadata.uid, operator: In, values: [a]}]}]", 'matchFields know metadata.name, and not "metadata.uid"'),
    (NEAR % (100, "zone"), ""),
    (NEAR % (101, "zone"), "weight is 101, and can be 1 to 100"),
    (NEAR % (0, "zone"), "weight is 0, and can be 1 to 100"),
    (NEAR % (1, "''"), "topologyKey is empty"),
    (VOLUME % "hostPath: {path: /a/../b}", 'path: "/a/../b" has a step upwards (..)'),
    (VOLUME % "nfs: {server: '', path: a}", "server is empty"),
    (VOLUME % "nfs: {server: b, path: a}", 'path: "a" is not absolute'),
    (VOLUME % "configMap: {name: a, defaultMode: 777}", "defaultMode is 777, and can be 0 to 511"),
    (VOLUME % "configMap: {name: a, defaultMode: 0644}", ""),
    (VOLUME % "configMap: {items: [{key: a, path: b}]}", "name is missing"),
    (VOLUME % "secret: {secretName: a, items: [{key: a, path: ..b}]}", 'path: "..b" starts with two dots'),
    (VOLUME % "secret: {secretName: a, items: [{key: a, path: /b}]}", 'path: "/b" is not a relative path'),
    (VOLUME % "emptyDir: {sizeLimit: '-1Gi'}", "sizeLimit is -1Gi, and cannot be negative"),
    (VOLUME % "persistentVolumeClaim: {claimName: ''}", "claimName is empty"),
    (VOLUME % (FILE % "a, fieldRef: {fieldPath: metadata.annotations}"), ""),
    (VOLUME % (FILE % "a, fieldRef: {fieldPath: status.podIP}"), 'fieldPath: "status.podIP" is not one of '),
    (VOLUME % (FILE % "a"), "needs one of fieldRef, resourceFieldRef, and has none of them"),
    (VOLUME % (FILE % "a, resourceFieldRef: {resource: limits.cpu}"), "a file needs the containerName of its resource"),
    (VOLUME % "projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 60}}]}", "expirationSeconds is 60, and can be 600 to 4294967296"),
    (VOLUME % "projected: {sources: [{configMap: {name: a, items: [{key: a, path: b}]}}, {secret: {name: a, items: [{key: a, path: b}]}}]}", "b is there twice"),
    (VOLUME % "projected: {sources: [{configMap: {name: a}, secret: {name: a}}]}", "secret and configMap exclude each other"),
    (VOLUME % "image: {}", "reference is missing"),
    (VOLUME % "image: {reference: a, pullPolicy: always}", 'pullPolicy: "always" is not one of Always, IfNotPresent and Never'),
    (VOLUME % "ephemeral: {}", "volumeClaimTemplate is missing"),
    (VOLUME % (CLAIM % "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"), ""),
    (VOLUME % (CLAIM % "resources: {requests: {storage: 1Gi}}"), "there is no accessModes"),
    (VOLUME % (CLAIM % "accessModes: [ReadWriteOnce]"), "there is no resources.requests.storage"),
    (VOLUME % (CLAIM % "accessModes: [RWX], resources: {requests: {storage: 0}}"), 'accessModes: "RWX" is not one of '),
    (VOLUME % "azureDisk: {diskName: a, diskURI: b, kind: managed}", 'kind: "managed" is not one of Dedicated, Managed and Shared'),
    (VOLUME % "azureDisk: {diskName: a, diskURI: b, kind: Managed}", 'diskURI: "b" of kind Managed begins with /subscriptions/'),
    ("hostAliases: [{ip: 10.0.0.07, hostnames: [a]}]", 'ip: "10.0.0.07" is not an IP address'),
    ("dnsConfig: {nameservers: [010.0.0.1]}", 'nameservers: "010.0.0.1" is not an IP address'),
    ("dnsConfig: {searches: [__]}", 'searches: "__" is not a domain to search'),
    ("dnsConfig: {searches: [_a.b-c._d]}", ""),
    ("restartPolicy: Never, initContainers: [{name: b, image: a:1, restartPolicy: Always, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]", "RestartContainer needs a pod with a restartPolicy other than Never"),
    ("initContainers: [{name: b, image: a:1, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]}]", "resizePolicy is for containers that run, and this one ends"),
    ("hostnameOverride: Not_A_Name", 'hostnameOverride: "Not_A_Name" is not a DNS subdomain'),
    ("hostnameOverride: a.b, setHostnameAsFQDN: true", "hostnameOverride and setHostnameAsFQDN: true exclude each other"),
    ("nodeName: a, schedulingGates: [{name: a.io/b}]", "nodeName and schedulingGates exclude each other"),
    ("os: {name: windows}, resources: {limits: {cpu: 1}}", "resources of a whole pod are for Linux, and os is windows"),
    (SPREAD % ("1, labelSelector: {}, matchLabelKeys: [/a]", "ScheduleAnyway"), 'matchLabelKeys: "/a" is not a DNS subdomain'),
    (SPREAD % ("1, labelSelector: {matchLabels: {a: b}}, matchLabelKeys: [a]", "ScheduleAnyway"), 'labelSelector has the key "a", too'),
    (TOGETHER % "labelSelector: {}, matchLabelKeys: [a b]", 'matchLabelKeys: "a b" is not a qualified name'),
    (TOGETHER % "labelSelector: {}, mismatchLabelKeys: [a b]", 'mismatchLabelKeys: "a b" is not a qualified name'),
    (TOGETHER % "labelSelector: {}, matchLabelKeys: [a], mismatchLabelKeys: [a]", 'mismatchLabelKeys has "a", too'),
    (TOGETHER % "labelSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}, matchLabelKeys: [a]", ""),  # as the server writes it
    (AFFINITY % "[{matchExpressions: [{key: gpu, operator: In, values: [NVIDIA H100]}]}]", 'values: "NVIDIA H100" is not the value of a label'),
    ("affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: gpu, operator: In, values: [NVIDIA H100]}]}}]}}", ""),  # it only never matches
    ("tolerations: [{key: a, operator: Gt, value: '-100'}]", ""),
    ("tolerations: [{key: a, operator: Gt, value: '95.5'}]", 'value: "95.5" is not a whole number of 64 bits'),
    ("tolerations: [{key: a, operator: Lt, value: '9223372036854775808'}]", 'value: "9223372036854775808" is not a whole number of 64 bits'),
    (VOLUME % "emptyDir: {}" + ", initContainers: [{name: b, image: a:1, volumeDevices: [{name: d, devicePath: /dev/a}]}]", '"d" is not a device'),
    (VOLUME % "persistentVolumeClaim: {claimName: a}" + ", initContainers: [{name: b, image: a:1, volumeDevices: [{name: d, devicePath: /dev/a}]}]", ""),
    (VOLUME % (CLAIM % "accessModes: [ReadWriteOnce], storageClassName: Fast, resources: {requests: {storage: 1Gi}}"), 'storageClassName: "Fast" is not a DNS subdomain'),
    (VOLUME % (CLAIM % "accessModes: [ReadWriteOnce], storageClassName: '', resources: {requests: {storage: 1Gi}}"), ""),
    (VOLUME % (CLAIM % "accessModes: [ReadWriteOnce], dataSource: {kind: A, name: a}, dataSourceRef: {kind: A, name: b}, resources: {requests: {storage: 1Gi}}"), "dataSource and dataSourceRef differ"),
    (VOLUME % "ephemeral: {volumeClaimTemplate: {metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}", "name is made for each pod, and cannot be set"),
    (VOLUME % "csi: {driver: 'a b'}", 'driver: "a b" is not the name of a CSI driver'),
    (VOLUME % "csi: {driver: Ebs.csi.aws.com}", ""),
    (VOLUME % "csi: {driver: a, nodePublishSecretRef: {}}", "nodePublishSecretRef has no name"),
    (VOLUME % "quobyte: {registry: r, volume: v}", 'registry: "r" is not host:port'),
    (VOLUME % "quobyte: {registry: 'r:7861,[fd00::1]:1', volume: v}", ""),
    (VOLUME % "iscsi: {targetPortal: a, iqn: 'iqn.2015-02.example.com:test', lun: 0}", ""),
    (VOLUME % "iscsi: {targetPortal: a, iqn: disk, lun: 0}", 'iqn: "disk" is not a name of iSCSI'),
    (VOLUME % "iscsi: {targetPortal: a, iqn: eui.0123456789ABCDEF, lun: 0, chapAuthSession: true}", "CHAP needs a secretRef"),
    (VOLUME % "fc: {targetWWNs: [a], wwids: [b], lun: 1}", "needs one of targetWWNs, wwids"),
    (VOLUME % "fc: {targetWWNs: [a]}", "targetWWNs need a lun"),
    (VOLUME % "flocker: {}", "needs one of datasetName, datasetUUID"),
    (VOLUME % "flocker: {datasetName: a/b}", 'datasetName: "a/b" is not a name without /'),
    (VOLUME % "cephfs: {monitors: []}", "monitors is empty"),
    (VOLUME % "flexVolume: {driver: a/b, options: {x.k8s.io/a: b}}", "x.k8s.io/a: the domain is reserved"),
    (VOLUME % "scaleIO: {gateway: g, system: s, secretRef: {name: a}}", "volumeName is missing"),
    (VOLUME % "azureFile: {secretName: '', shareName: a}", "secretName is empty"),
    (VOLUME % "projected: {sources: [{podCertificate: {signerName: a.io/b, keyType: ED25519, keyPath: a, certificateChainPath: a}}]}", "a is there twice"),
    (VOLUME % "projected: {sources: [{podCertificate: {signerName: a.io/b/c, keyType: ED25519, keyPath: a}}]}", 'signerName: "a.io/b/c" is not the name of a signer'),
    (VOLUME % "projected: {sources: [{clusterTrustBundle: {name: a, path: b, labelSelector: {}}}]}", "name and labelSelector exclude each other"),
]  # fmt: skip


def _only(messages: list[str], message: str) -> None:
    if not message:
        assert messages == []
    else:
        assert messages
        assert messages[0].startswith(message)


@pytest.mark.parametrize(("container", "message"), CONTAINERS)
def test_fields_of_a_container(container: str, message: str) -> None:
    _only(said(container), message)


@pytest.mark.parametrize(("spec", "message"), SPECS)
def test_fields_of_a_pod(spec: str, message: str) -> None:
    _only(said(spec=spec), message)


@pytest.mark.parametrize(
    ("container", "spec", "version", "message"),
    [
        ("resources: {requests: {cpu: 2}}", "resources: {requests: {cpu: 1500m}}", "1.34", "cpu is 1500m, and its containers have 2"),
        ("resources: {limits: {memory: 2Gi}}", "resources: {limits: {memory: 1Gi}}", "1.34", "memory is 1Gi, and its containers have 2147483648"),
        ("resources: {requests: {cpu: 2}}", "resources: {requests: {cpu: 2}}", "1.34", ""),
        ("resources: {requests: {cpu: 2}}", "resources: {requests: {cpu: 1}}", "1.33", ""),
        ("resources: {requests: {cpu: lots}}", "resources: {requests: {cpu: 1}}", "1.34", ""),
    ],
)  # fmt: skip
def test_fields_of_a_container_and_of_its_pod(
    container: str, spec: str, version: str, message: str
) -> None:
    _only(said(container, spec, version), message)


ENVIRONMENT = """\
podSecurity: privileged
allow: [podPatch]
"""
AUTHORED = [
    ("topologySpread: [{topologyKey: zone, whenUnsatisfiable: DoNotSchedule, maxSkew: ", "0", "}]"),
    ("hostAliases: [{hostnames: [a], ip: ", "nas", "}]"),
    ("dnsConfig: {nameservers: [10.0.0.1, ", "dns", "]}"),
    ("affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
     "[{podAffinityTerm: {topologyKey: zone}, weight: ", "101", "}]}}"),
    ("volumes: {v: {mountPath: /v, projected: {sources: [{configMap: {name: a, "
     "items: [{key: a, path: ", "/b", "}]}}]}}}"),
    ("volumes: {v: {mountPath: /v, downwardAPI: {items: [{path: ", "../a", ", fieldRef: "
     "{fieldPath: metadata.labels}}]}}}"),
    ("security: {sysctls: [{value: '1', name: ", "Net.core", "}]}"),
    ("security: {seccompProfile: {type: Localhost, localhostProfile: ", "/a", "}}"),
    ("sidecars: {s: {image: 'a:1', ports: [{containerPort: ", "65536", "}]}}"),
    ("sidecars: {s: {image: 'a:1', ports: [{containerPort: 1, name: b}, {containerPort: 2, name: ", "b", "}]}}"),
    ("initContainers: {s: {image: 'a:1', resources: {limits: {gpu: ", "1", "}}}}"),
    ("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
     "[{matchExpressions: [{key: gpu, operator: In, values: [", "NVIDIA H100", "]}]}]}}}"),
    ("volumes: {v: {mountPath: /v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], "
     "resources: {requests: {storage: 1Gi}}, storageClassName: ", "Fast", "}}}}}"),
    ("volumes: {v: {mountPath: /v, quobyte: {volume: v, registry: ", "r", "}}}"),
    ("livenessProbe: {httpGet: {port: 80, httpHeaders: [{value: a, name: ", "A B", "}]}}"),
    ("sidecars: {s: {image: 'a:1', livenessProbe: {httpGet: {port: 80, httpHeaders: [{value: a, name: ", "A B", "}]}}}}"),
    ("podPatch: {spec: {containers: [{name: pytorch, restartPolicy: ", "Sometimes", "}]}}"),
    ("volumes: {v: ", "{", "emptyDir: {}, devicePath: /dev/a}}"),
    ("podPatch: {spec: {hostnameOverride: ", "A_b", "}}"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "value", "after"), AUTHORED)
def test_the_finding_is_at_the_authored_value(
    before: str, value: str, after: str, repository: Repository
) -> None:
    environment = repository.environment("dev", ENVIRONMENT)
    environment.write_text(environment.read_text().replace('"1.31"', '"1.36"'))
    job = repository.job("dev/mnist", f"{before}{value}{after}\n")
    done = repository.run("check", "--no-cache", "-o", "json")
    (found,) = [f for f in json.loads(done.output)["report"]["results"] if f["rule"] == "TW739"]
    line = len(job.read_text().splitlines())
    assert (found["place"]["line"], found["place"]["column"]) == (line, len(before) + 1)


def test_every_type_with_checks_is_one_of_kubernetes() -> None:
    known = {name.rpartition(".")[2] for name in kubernetes_schemas.definitions("1.37")["$defs"]}
    for table in (pods, volumes, objects):
        assert known >= {*table.CHECKS, *table.CHECKS_BY_MINOR}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("{template: {spec: {containers: []}}}", "a pod has at least one container"),
        ("{template: {spec: }}", "spec is missing"),
        ("{template: {}}", "spec is missing"),
        ("", "spec is missing"),
    ],
)
def test_a_pod_without_containers(job: str, message: str) -> None:
    body = yaml.safe_load(f"kind: Job\napiVersion: batch/v1\nspec: {job}")
    hits = RULES["TW739"].run(subject_of(Manifest(body=body), nowhere("1.37")))
    assert [hit.message for hit in hits] == [message]


def test_older_versions_refuse_more() -> None:
    assert not said("env: [{name: 1A, value: a}]", version="1.32")
    assert said("env: [{name: 1A, value: a}]", version="1.31")
    assert not said("restartPolicy: Never", version="1.34")
    assert said("restartPolicy: Never", version="1.33")


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        ("hostAliases: [{ip: 10.0.0.07, hostnames: [a]}]", "1.36"),
        (AFFINITY % "[{matchExpressions: [{key: a, operator: In, values: [b c]}]}]", "1.33"),
    ],
)
def test_newer_versions_refuse_more(spec: str, first: str) -> None:
    assert said(spec=spec, version=first)
    assert not said(spec=spec, version=f"1.{int(first[2:]) - 1}")


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ("seccomp.security.alpha.kubernetes.io/pod: runtime/default", ""),
        ("seccomp.security.alpha.kubernetes.io/pod: foo", 'pod: "foo" is not a seccomp profile'),
        ("container.seccomp.security.alpha.kubernetes.io/a: localhost/../b", "is not a seccomp"),
        ("container.apparmor.security.beta.kubernetes.io/a: runtime/foo", "is not a profile of"),
        ("controller.kubernetes.io/pod-deletion-cost: '008'", '"008" is not a whole number'),
    ],
)
def test_annotations_that_the_server_reads(annotation: str, message: str) -> None:
    pod = f"{{kind: Pod, metadata: {{annotations: {{{annotation}}}}}, spec: {{containers: [{{name: a}}]}}}}"
    hits = RULES["TW739"].run(subject_of(Manifest(body=yaml.safe_load(pod)), nowhere("1.37")))
    found = [hit.message for hit in hits]
    assert len(found) == bool(message), found
    assert not message or message in found[0]


TRAINS = "{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: a}, spec: {pytorchReplicaSpecs: {Master: {template: {spec: {%s containers: [{name: pytorch, image: a:1, %s}]}}}}}}"


@pytest.mark.parametrize(
    ("spec", "container", "message"),
    [
        ("restartPolicy: Sometimes,", "", 'restartPolicy: "Sometimes" is not one of Always, Never, OnFailure'),
        ("", "imagePullPolicy: Often", 'imagePullPolicy: "Often" is not one of Always, IfNotPresent, Never'),
        (AFFINITY % "[{matchExpressions: [{key: a, operator: ''}]}]" + ",", "", 'operator: "" is not one of DoesNotExist, '),
        ("tolerations: [{key: a, effect: ''}],", "", ""),
        ("restartPolicy: $POLICY,", "", ""),
    ],
)  # fmt: skip
def test_words_where_the_schema_of_the_object_says_text(
    spec: str, container: str, message: str
) -> None:
    body = yaml.safe_load(TRAINS % (spec, container))
    hits = RULES["TW739"].run(subject_of(Manifest(body=body), nowhere("1.37")))
    _only([hit.message for hit in hits], message)


LOCAL = "{appArmorProfile: {type: Localhost, localhostProfile: b}}"
CONFINED = "{seccompProfile: {type: RuntimeDefault}, appArmorProfile: {type: Unconfined}}"


@pytest.mark.parametrize(
    ("key", "value", "of_pod", "of_container", "differs"),
    [
        ("seccomp.security.alpha.kubernetes.io/pod", "unconfined", CONFINED, "{}", True),
        ("seccomp.security.alpha.kubernetes.io/pod", "docker/default", CONFINED, "{}", False),
        ("container.seccomp.security.alpha.kubernetes.io/a", "localhost/b", "{}", CONFINED, True),
        ("container.seccomp.security.alpha.kubernetes.io/a", "localhost/b", CONFINED, "{}", False),
        ("container.apparmor.security.beta.kubernetes.io/a", "unconfined", CONFINED, "{}", False),
        ("container.apparmor.security.beta.kubernetes.io/a", "localhost/b", "{}", LOCAL, False),
        ("container.apparmor.security.beta.kubernetes.io/a", "localhost/c", "{}", LOCAL, True),
        (
            "container.apparmor.security.beta.kubernetes.io/a",
            "runtime/default",
            CONFINED,
            "{}",
            True,
        ),
    ],
)
def test_an_annotation_and_its_field_are_the_same(
    key: str, value: str, of_pod: str, of_container: str, *, differs: bool
) -> None:
    container = f"{{name: a, securityContext: {of_container}}}"
    spec = f"{{securityContext: {of_pod}, containers: [{container}]}}"
    pod = f"{{kind: Pod, metadata: {{annotations: {{{key}: {value}}}}}, spec: {spec}}}"
    hits = RULES["TW739"].run(subject_of(Manifest(body=yaml.safe_load(pod)), nowhere("1.37")))
    assert ["both have to be the same" in hit.message for hit in hits] == [True] * differs


def test_a_profile_of_a_container_that_is_not_there() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/b"
    pod = f"{{kind: Pod, metadata: {{annotations: {{{key}: unconfined}}}}, spec: {{containers: [{{name: a}}]}}}}"
    hits = RULES["TW739"].run(subject_of(Manifest(body=yaml.safe_load(pod)), nowhere("1.37")))
    assert [hit.message for hit in hits] == ['there is no container "b"']


def test_pods_that_clusters_accepted_have_no_finding(shared: Callable[[str], Path]) -> None:
    files = [*shared("oracles/pod-security").rglob("*.yaml")]
    assert len(files) > 100
    for file in files:
        subject = subject_of(Manifest(body=yaml.safe_load(file.read_text())), nowhere("1.37"))
        assert not list(RULES["TW739"].run(subject)), file


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("flags: {epochs: 1, host: ", "}"),
        ("launcher: torchrun\nlauncherOptions: {role: ", "}"),
        ("env: {B: b, A: ", "}"),
    ],
)
def test_a_variable_that_is_not_there_is_found_where_it_is_named(
    before: str, after: str, repository: Repository
) -> None:
    job = repository.job("dev/mnist", f"{before}$(NOPE){after}\n")
    done = repository.run("check", "--no-cache", "-o", "json")
    (found,) = [f for f in json.loads(done.output)["report"]["results"] if f["rule"] == "TW307"]
    line = len(job.read_text().splitlines())
    column = len(before.rpartition("\n")[2]) + 1
    assert (found["place"]["line"], found["place"]["column"]) == (line, column)
