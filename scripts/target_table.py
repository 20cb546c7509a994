"""Write docs/targets.md: every feature of a job spec on every target, found out by rendering it.

python scripts/target_table.py [--check]
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from generated import ROOT, main

from trainwright.datatypes.fields import spelled
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.job import POD_FIELDS
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Document, load_rendered, parse
from trainwright.files.tree import Folder
from trainwright.helm import engines
from trainwright.kinds import TARGETS
from trainwright.render import job as render
from trainwright.runs.record import VALUES_FILE
from trainwright.runs.workspace import resolved
from trainwright.specs import fields, resolve, violations
from trainwright.specs.load import LoadedJob, Reader
from trainwright.specs.merge import Layer, stack

PAGE = ROOT / "docs" / "targets.md"
COMMAND = "python scripts/target_table.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """Something a job spec can request: an example, and what of it is seen where it is rendered.

    `shows` are alternatives, since each kind has its own words; `environment` is what must be in
    environment.yaml for it.
    """

    name: str
    spec: str
    shows: tuple[str, ...]
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Variant:
    """A column of a table: a target as one cluster has it. Two tables have one in common."""

    title: str = field(compare=False)
    target: str
    options: str = "{}"


_POOL = "pools: {gpu: {resource: nvidia.com/gpu}}"
_PLACED = (
    "pools: {gpu: {resource: nvidia.com/gpu, nodeSelector: {pool: h100},"
    " tolerations: [{key: sku, operator: Exists}]}}"
)
_KUEUE = "queueing: kueue\nqueues: {team: {}}"


def _volume(source: str) -> str:
    return f"volumes: {{v: {{{source}, mountPath: /v}}}}"


_OTHER_VOLUMES = """\
volumes:
  a: {awsElasticBlockStore: {volumeID: v}, mountPath: /a}
  b: {azureDisk: {diskName: d, diskURI: "https://example.com/d"}, mountPath: /b}
  c: {azureFile: {shareName: s, secretName: a}, mountPath: /c}
  d: {cephfs: {monitors: ["192.0.2.1:6789"]}, mountPath: /d}
  e: {cinder: {volumeID: v}, mountPath: /e}
  f: {fc: {targetWWNs: [500a0982991b8dc5], lun: 2}, mountPath: /f}
  g: {flexVolume: {driver: example.com/flex}, mountPath: /g}
  h: {flocker: {datasetName: d}, mountPath: /h}
  i: {gcePersistentDisk: {pdName: d}, mountPath: /i}
  j: {gitRepo: {repository: "https://git.example.com/a.git"}, mountPath: /j}
  k: {glusterfs: {endpoints: e, path: p}, mountPath: /k}
  l: {iscsi: {targetPortal: nas, iqn: "iqn.2001-04.com.example:disk", lun: 0}, mountPath: /l}
  m: {photonPersistentDisk: {pdID: d}, mountPath: /m}
  n: {portworxVolume: {volumeID: v}, mountPath: /n}
  o: {quobyte: {registry: "r:7861", volume: v}, mountPath: /o}
  p: {rbd: {monitors: ["192.0.2.3:6789"], image: i}, mountPath: /p}
  q: {scaleIO: {gateway: g, system: s, secretRef: {name: a}, volumeName: v}, mountPath: /q}
  r: {storageos: {volumeName: v}, mountPath: /r}
  s: {vsphereVolume: {volumePath: "[d] v.vmdk"}, mountPath: /s}
"""

_OWN_WORDS = (
    Feature(
        name="image by digest",
        spec=f"image: {{digest: 'sha256:{'5' * 64}'}}",
        shows=(f"train:1.0@sha256:{'5' * 64}",),
    ),
    Feature(name="pull policy", spec="image: {pullPolicy: Always}", shows=("Always", "always")),
    Feature(name="pull secrets", spec="image: {pullSecrets: [regcred]}", shows=("regcred",)),
    Feature(name="Python module", spec="entrypoint: {module: a.b}", shows=('- "a.b"', "-m a.b")),
    Feature(
        name="script in the image", spec="entrypoint: {script: b.py}", shows=('- "b.py"', "-u b.py")
    ),
    Feature(
        name="custom command",
        spec="entrypoint: {argv: [/bin/t]}",
        shows=('- "/bin/t"', 'entrypoint: "/bin/t"'),
    ),
    Feature(
        name="what the image starts",
        spec="entrypoint: {image: true, args: [fit]}",
        shows=('- "fit"',),
    ),
    Feature(
        name="script in the spec", spec="entrypoint: {inline: print(42)}", shows=("print(42)",)
    ),
    Feature(
        name="Trainwright's entrypoint",
        spec="launcher: trainwright\nentrypoint: {script: b.py}\nprocsPerNode: 2",
        shows=("--nproc-per-node=2",),
    ),
    Feature(name="torchrun", spec="launcher: torchrun", shows=('- "torchrun"',)),
    Feature(name="plain python", spec="launcher: python", shows=('- "-u"',)),
    Feature(name="accelerate", spec="launcher: accelerate\nnodes: 1", shows=("--num_machines=1",)),
    Feature(
        name="accelerate on several nodes",
        spec="launcher: accelerate\nnodes: 2",
        shows=("--main_process_ip=",),
    ),
    Feature(name="DeepSpeed", spec="launcher: deepspeed", shows=("deepspeed.launcher.launch",)),
    Feature(
        name="DeepSpeed on several nodes",
        spec="launcher: deepspeed\nnodes: 2",
        shows=("--node_rank=$(",),
    ),
    Feature(
        name="Ray",
        spec="launcher: ray\nlauncherOptions: {num-cpus: 7}",
        shows=("--num-cpus=7", '"num-cpus": "7"'),
    ),
    Feature(
        name="Ray on several nodes",
        spec="launcher: ray\nnodes: 2\nlauncherOptions: {num-cpus: 7}",
        shows=("--num-cpus=7", '"num-cpus": "7"'),
    ),
    Feature(
        name="options of the launcher",
        spec="launcher: torchrun\nlauncherOptions: {tee: '3', max-restarts: 2}",
        shows=("--max-restarts=2",),
    ),
    Feature(name="flags", spec="flags: {lr: 0.5}", shows=("--lr=0.5",)),
    Feature(
        name="flags of another form",
        spec="flags: {lr: 0.5, d: {words: [a, b]}}\nflagStyle: --k v",
        shows=('- "0.5"', '- "--lr"', "--lr 0.5"),
    ),
    Feature(
        name="arguments that are no flags",
        spec="entrypoint: {script: b.py, args: [c.yaml]}",
        shows=('- "c.yaml"', "b.py c.yaml"),
    ),
    Feature(
        name="references to the run",
        spec="flags: {run: '${{ job.name }}/${{ procsPerNode }}'}",
        shows=("--run=sample/1",),
    ),
    Feature(
        name="where rank 0 is, in several nodes",
        spec="nodes: 2\nflags: {url: '${{ rank0.address }}:${{ rank0.port }}'}",
        shows=("-master-0:23456", "-0-0.", ":29500"),
    ),
    Feature(
        name="several nodes",
        spec="nodes: 3",
        shows=("replicas: 2", "maxSize: 3", "numNodes: 3", "completions: 3"),
    ),
    Feature(name="several processes a node", spec="procsPerNode: 2", shows=("--nproc-per-node=2",)),
    Feature(
        name="elastic range",
        spec="elastic: {minNodes: 2, maxNodes: 5}",
        shows=("maxReplicas: 5", "maxSize: 5"),
    ),
    Feature(
        name="recovery while others go on",
        spec="elastic: {minNodes: 2, maxNodes: 5, recovery: live}",
        shows=("--recovery=live",),
    ),
    Feature(
        name="backend",
        spec="backend: gloo\npool: gpu\nresources: {gpu: 4}",
        environment=_POOL,
        shows=("--backend=gloo",),
    ),
    Feature(
        name="GPUs",
        spec="pool: gpu\nresources: {gpu: 4}",
        environment=_POOL,
        shows=('"nvidia.com/gpu": "4"', "driver: nvidia"),
    ),
    Feature(
        name="placement by the pool",
        spec="pool: gpu\nresources: {gpu: 4}",
        environment=_PLACED,
        shows=('"pool": "h100"',),
    ),
    Feature(
        name="cores and memory",
        spec="resources: {cpu: '3', memory: 7Gi}",
        shows=('"7Gi"', 'memory: "7g"'),
    ),
    Feature(
        name="a limit of cores",
        spec="resources: {limits: {cpu: '9'}}",
        shows=('"cpu": "9"', 'cpus: "9"'),
    ),
    Feature(
        name="memory request without a limit",
        spec="resources: {memory: null, requests: {memory: 6Gi}}",
        shows=('"memory": "6Gi"', 'memory: "6g"'),
    ),
    Feature(
        name="local disk", spec="resources: {ephemeralStorage: 3Gi}", shows=('"ephemeral-storage"',)
    ),
    Feature(
        name="extended resources",
        spec="resources: {extended: {rdma/ib: 1}}",
        shows=('"rdma/ib": "1"',),
    ),
    Feature(
        name="huge pages",
        spec="resources: {hugepages: {2Mi: 64Mi}}",
        shows=('"hugepages-2Mi": "64Mi"',),
    ),
    Feature(
        name="claims of devices (DRA)",
        spec="resourceClaims: {nic: {template: rdma, request: port}}",
        shows=('"resourceClaimTemplateName":"rdma"',),
    ),
    Feature(name="shared memory", spec="shm: 3Gi", shows=('"3Gi"', '"3g"')),
    Feature(name="environment variables", spec="env: {COLOUR: red}", shows=('"red"',)),
    Feature(
        name="variables: fields of the pod",
        spec="env: {NODE: {field: spec.nodeName}}",
        shows=('"spec.nodeName"',),
    ),
    Feature(
        name="variables: resources of the container",
        spec="env: {CORES: {resource: limits.cpu}}\nresources: {limits: {cpu: '9'}}",
        shows=('"limits.cpu"',),
    ),
    Feature(
        name="variables: keys of ConfigMaps",
        spec="env: {RATE: {configMap: conf, key: rate}}",
        shows=('"rate"',),
    ),
    Feature(
        name="variables: whole ConfigMaps and Secrets",
        spec="envFrom: [{configMap: conf, prefix: P_}]",
        shows=('"P_"',),
    ),
    Feature(
        name="secret variables",
        spec="secrets: {TOKEN: {name: hf, key: token}}",
        shows=('"TOKEN"',),
    ),
    Feature(
        name="secrets from a store (External Secrets)",
        spec="secrets: {TOKEN: {external: {store: vault, key: ml/hf}}}",
        shows=("kind: ExternalSecret",),
    ),
    Feature(name="volume: claim", spec=_volume("claim: data"), shows=('"data"',)),
    Feature(
        name="volume: claim that is made",
        spec=_volume("create: {size: 9Gi}"),
        shows=("kind: PersistentVolumeClaim",),
    ),
    Feature(
        name="volume: folder of the node", spec=_volume("hostPath: {path: /disk}"), shows=("/disk",)
    ),
    Feature(name="volume: scratch", spec=_volume("emptyDir: {}"), shows=("emptyDir: {}", "/v")),
    Feature(
        name="volume: scratch in memory",
        spec=_volume("emptyDir: {medium: Memory, sizeLimit: 9Gi}"),
        shows=('"9Gi"', '"9g"'),
    ),
    Feature(
        name="volume: scratch of a size",
        spec=_volume("emptyDir: {sizeLimit: 9Gi}"),
        shows=('"9Gi"',),
    ),
    Feature(name="volume: ConfigMap", spec=_volume("configMap: conf"), shows=('"conf"',)),
    Feature(name="volume: Secret", spec=_volume("secret: cert"), shows=('"cert"',)),
    Feature(
        name="volume: NFS",
        spec=_volume("nfs: {server: nas, path: /x}"),
        shows=('"nas"', "addr=nas"),
    ),
    Feature(
        name="volume: CSI",
        spec=_volume("csi: {driver: gcsfuse.csi.storage.gke.io}"),
        shows=('"gcsfuse.csi.storage.gke.io"',),
    ),
    Feature(
        name="volume: claim of each pod",
        spec=_volume(
            "ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce],"
            " resources: {requests: {storage: 9Gi}}}}}"
        ),
        shows=('"9Gi"',),
    ),
    Feature(
        name="volume: several sources in one (projected)",
        spec=_volume("projected: {sources: [{configMap: {name: conf}}]}"),
        shows=("projected",),
    ),
    Feature(
        name="volume: fields of the pod (downward API)",
        spec=_volume("downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}"),
        shows=("downwardAPI",),
    ),
    Feature(
        name="volume: OCI image",
        spec=_volume("image: {reference: 'registry.example.com/model:1'}"),
        shows=("registry.example.com/model:1",),
    ),
    Feature(
        name="volume: claim with fields of its own",
        spec=_volume("persistentVolumeClaim: {claimName: data, readOnly: true}"),
        shows=('"data"',),
    ),
    Feature(
        name="volume: any other source of a pod",
        spec=_OTHER_VOLUMES,
        shows=("iqn.2001-04.com.example:disk",),
    ),
    Feature(
        name="volume: at several places",
        spec="volumes: {v: {claim: data, mounts: [{mountPath: /a}, {mountPath: /b}]}}",
        shows=('"/b"',),
    ),
    Feature(
        name="volume: a folder by a variable",
        spec="env: {POD: {field: metadata.name}}\n" + _volume("claim: data, subPathExpr: $(POD)"),
        shows=("subPathExpr",),
    ),
    Feature(
        name="volume: mount propagation",
        spec=_volume("claim: data, mountPropagation: HostToContainer"),
        shows=("HostToContainer",),
    ),
    Feature(
        name="volume: a folder of it",
        spec=_volume("claim: data, subPath: part"),
        shows=('"part"',),
    ),
    Feature(
        name="code by commit",
        spec=f"code: {{git: {{url: 'https://git.example.com/a', commit: '{'5' * 40}'}}}}",
        shows=(f"--ref={'5' * 40}",),
    ),
    Feature(
        name="code in an OCI image",
        spec=f"code: {{image: 'r.example.com/code@sha256:{'5' * 64}'}}",
        shows=(f"r.example.com/code@sha256:{'5' * 64}",),
    ),
    Feature(
        name="file of the run",
        spec="files: {/etc/a.yaml: {content: 'lr: 0.25'}}",
        shows=("lr: 0.25",),
    ),
    Feature(
        name="file of the run with permissions",
        spec="files: {/etc/a.sh: {content: '#!/bin/sh', mode: '0755'}}",
        shows=("mode: 493",),
    ),
    Feature(
        name="volume: read only",
        spec=_volume("claim: data, readOnly: true"),
        shows=("readOnly: true", "read_only: true"),
    ),
    Feature(
        name="init containers",
        spec="initContainers: {get: {image: 'registry.example.com/get:1'}}",
        shows=("registry.example.com/get:1",),
    ),
    Feature(
        name="sidecars",
        spec="sidecars: {daemon: {image: 'registry.example.com/daemon:1'}}",
        shows=("registry.example.com/daemon:1",),
    ),
    Feature(
        name="checkpoints",
        spec=f"checkpoint: {{volume: v, path: ckpt}}\n{_volume('claim: data')}\ngracePeriod: 2m",
        shows=("/v/ckpt/",),
    ),
    Feature(
        name="copies of checkpoints in the memory of two nodes",
        spec="checkpoint: {volume: v, path: ckpt, peerCopies: {volume: m, every: 9}}\n"
        "volumes:\n  v: {claim: data, mountPath: /v}\n"
        "  m: {emptyDir: {medium: Memory, sizeLimit: 1Gi}, mountPath: /m}\ngracePeriod: 2m",
        shows=("TRAINWRIGHT_PEER_COPIES_DIR",),
    ),
    Feature(
        name="Kueue: queue",
        spec="queue: team",
        environment=_KUEUE,
        shows=('"kueue.x-k8s.io/queue-name": "team"',),
    ),
    Feature(
        name="Kueue: priority",
        spec="queue: team\nqueuePriority: first",
        environment=_KUEUE,
        shows=('"kueue.x-k8s.io/priority-class": "first"',),
    ),
    Feature(
        name="Kueue: required topology",
        spec="queue: team\ntopology: {required: rack}",
        environment=_KUEUE,
        shows=('"kueue.x-k8s.io/podset-required-topology": "rack"',),
    ),
    Feature(
        name="Kueue: preferred topology",
        spec="queue: team\ntopology: {preferred: rack}",
        environment=_KUEUE,
        shows=('"kueue.x-k8s.io/podset-preferred-topology": "rack"',),
    ),
    Feature(
        name="Kueue: a node selector in a queue",
        spec="queue: team\nnodeSelector: {zone: a}",
        environment=_KUEUE,
        shows=('"zone": "a"',),
    ),
    Feature(
        name="Kueue: tolerations in a queue",
        spec="queue: team\ntolerations: [{key: sku, operator: Exists}]",
        environment=_KUEUE,
        shows=('"sku"',),
    ),
    Feature(
        name="Kueue: affinity in a queue",
        spec="queue: team\naffinity: {podAntiAffinity: {}}",
        environment=_KUEUE,
        shows=("podAntiAffinity",),
    ),
    Feature(
        name="Kueue: suspended in a queue",
        spec="queue: team\nstate: suspended",
        environment=_KUEUE,
        shows=("suspend: true",),
    ),
    Feature(
        name="Volcano: queue",
        spec="queue: batch",
        environment="queueing: volcano",
        shows=('"batch"',),
    ),
    Feature(
        name="Volcano: gang",
        spec="gang: true",
        environment="queueing: volcano",
        shows=('schedulerName: "volcano"',),
    ),
    Feature(
        name="scheduler-plugins: gang",
        spec="gang: true",
        environment="queueing: coscheduling",
        shows=('schedulerName: "scheduler-plugins-scheduler"',),
    ),
    Feature(name="pod priority", spec="priorityClass: high", shows=('"high"',)),
    Feature(name="container runtime", spec="runtimeClass: kata", shows=('"kata"',)),
    Feature(
        name="another scheduler", spec="schedulerName: kai-scheduler", shows=('"kai-scheduler"',)
    ),
    Feature(
        name="longest duration", spec="maxDuration: 7777s", shows=("activeDeadlineSeconds: 7777",)
    ),
    Feature(
        name="retries",
        spec="retries: 7",
        shows=("backoffLimit: 7", "maxRestarts: 7", "on-failure:7"),
    ),
    Feature(
        name="grace period",
        spec="gracePeriod: 77s",
        shows=("terminationGracePeriodSeconds: 77", "stop_grace_period: 77s"),
    ),
    Feature(name="suspended", spec="state: suspended", shows=("suspend: true", "replicas: 0")),
    Feature(name="node selector", spec="nodeSelector: {zone: a}", shows=('"zone": "a"',)),
    Feature(
        name="tolerations", spec="tolerations: [{key: sku, operator: Exists}]", shows=('"sku"',)
    ),
    Feature(name="affinity", spec="affinity: {podAntiAffinity: {}}", shows=("podAntiAffinity",)),
    Feature(
        name="topology spread",
        spec="topologySpread: [{maxSkew: 1, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]",
        shows=("topologySpreadConstraints",),
    ),
    Feature(name="labels", spec="labels: {team: nlp}", shows=('"team": "nlp"',)),
    Feature(
        name="annotations", spec="annotations: {example.com/a: b}", shows=('"example.com/a": "b"',)
    ),
    Feature(name="labels of the pods", spec="podLabels: {rack: r7}", shows=('"rack": "r7"',)),
    Feature(
        name="annotations of the pods",
        spec="podAnnotations: {example.com/nic: eth1}",
        shows=('"example.com/nic": "eth1"',),
    ),
    Feature(name="ServiceAccount", spec="serviceAccount: sa", shows=('serviceAccountName: "sa"',)),
    Feature(
        name="ServiceAccount that is made",
        spec="createServiceAccount: true",
        shows=("kind: ServiceAccount",),
    ),
    Feature(
        name="token of the ServiceAccount",
        spec="serviceAccountToken: true",
        shows=("automountServiceAccountToken: true",),
    ),
    Feature(
        name="user and groups",
        spec="security: {runAsUser: 1234, fsGroup: 4321}",
        shows=("runAsUser: 1234", 'user: "1234"'),
    ),
    Feature(name="capabilities", spec="security: {capabilities: [SYS_NICE]}", shows=("SYS_NICE",)),
    Feature(
        name="all rights of the node",
        spec="security: {privileged: true}",
        shows=("privileged: true",),
    ),
    Feature(name="no root", spec="security: {runAsNonRoot: true}", shows=("runAsNonRoot: true",)),
    Feature(
        name="privilege escalation",
        spec="security: {allowPrivilegeEscalation: true}",
        shows=("allowPrivilegeEscalation: true", "no-new-privileges:false"),
    ),
    Feature(
        name="read-only root",
        spec="security: {readOnlyRootFilesystem: true}",
        shows=("readOnlyRootFilesystem: true", "read_only: true"),
    ),
    Feature(
        name="further groups", spec="security: {supplementalGroups: [4242]}", shows=("[4242]",)
    ),
    Feature(
        name="seccomp profile",
        spec="security: {seccompProfile: {type: Unconfined}}",
        shows=("Unconfined", "seccomp:unconfined"),
    ),
    Feature(
        name="AppArmor profile",
        spec="security: {appArmorProfile: {type: Unconfined}}",
        shows=("appArmorProfile",),
    ),
    Feature(
        name="SELinux options",
        spec="security: {seLinuxOptions: {type: container_engine_t}}",
        shows=("container_engine_t",),
    ),
    Feature(
        name="kernel settings",
        spec="security: {sysctls: [{name: net.ipv4.tcp_rmem, value: '1 2 3'}]}",
        shows=("net.ipv4.tcp_rmem",),
    ),
    Feature(
        name="host network",
        spec="hostNetwork: true",
        shows=("hostNetwork: true", "network_mode: host"),
    ),
    Feature(name="host IPC", spec="hostIPC: true", shows=("hostIPC: true",)),
    Feature(name="host processes", spec="hostPID: true", shows=("hostPID: true",)),
    Feature(name="user namespace", spec="hostUsers: false", shows=("hostUsers: false",)),
    Feature(
        name="processes of a pod's containers",
        spec="shareProcessNamespace: true",
        shows=("shareProcessNamespace: true",),
    ),
    Feature(
        name="no variables of Services",
        spec="enableServiceLinks: false",
        shows=("enableServiceLinks: false",),
    ),
    Feature(
        name="volume: recursively read only",
        spec=_volume("claim: data, readOnly: true, recursiveReadOnly: Enabled"),
        shows=("recursiveReadOnly: Enabled",),
    ),
    Feature(
        name="volume: block device",
        spec="volumes: {v: {claim: raw, devicePath: /dev/xvda}}",
        shows=("devicePath: ",),
    ),
    Feature(
        name="isolated network",
        spec="network: isolated",
        shows=("kind: NetworkPolicy", "network_mode: none"),
    ),
    Feature(name="DNS policy", spec="dnsPolicy: Default", shows=('dnsPolicy: "Default"',)),
    Feature(name="name servers", spec="dnsConfig: {nameservers: [10.9.8.7]}", shows=("10.9.8.7",)),
    Feature(
        name="lines of /etc/hosts",
        spec="hostAliases: [{ip: 10.9.8.7, hostnames: [nas]}]",
        shows=("10.9.8.7",),
    ),
    Feature(name="working directory", spec="workingDir: /workspace", shows=('"/workspace"',)),
    *(
        Feature(
            name=f"{name} probe",
            spec=f"{name}Probe: {{exec: {{command: [probe-it]}}}}",
            shows=("probe-it",),
        )
        for name in ("liveness", "readiness", "startup")
    ),
    Feature(
        name="lifecycle hooks",
        spec="lifecycle: {preStop: {exec: {command: [save-it]}}}",
        shows=("save-it",),
    ),
    Feature(
        name="termination message",
        spec="terminationMessagePath: /tmp/last\nterminationMessagePolicy: File",
        shows=('"/tmp/last"',),
    ),
    Feature(
        name="metrics",
        spec="metrics: {port: 9090}",
        shows=("kind: PodMonitor", "127.0.0.1:9090"),
    ),
    Feature(
        name="checks before training",
        spec="preflight: {shm: 1Gi}",
        shows=("--preflight=shm=1Gi,disk,checkpoint",),
    ),
    Feature(
        name="experiment tracking",
        spec="tracking: {project: vision}",
        shows=("WANDB_PROJECT",),
    ),
    Feature(
        name="patch of the pods",
        spec="podPatch: {metadata: {annotations: {example.com/a: b}}}",
        shows=('"example.com/a": "b"',),
    ),
    Feature(name="Lattice's settings", spec="lattice: {priority: 5}", shows=("priority: 5",)),
    Feature(
        name="roles",
        spec="roles: {judge: {entrypoint: {script: serve.py}, port: 8000}}",
        shows=("trainwright.io/role", "dependsOn"),
    ),
)


def _as_it_is(name: str, key: str) -> Feature:
    """A field that pods have as it is written, with the example of the schema."""
    pod_field = fields.field("job", Pointer.of(spelled(name)))
    value = (pod_field.examples or pod_field.choices)[0]
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Feature(
        name=pod_field.title.lower(),
        spec=json.dumps({spelled(name): value}),
        shows=(f"{key}: {written}",),
    )


_NAMED = {key for feature in _OWN_WORDS for key in load_rendered(feature.spec)[0]}
FEATURES = (
    *_OWN_WORDS,
    *(_as_it_is(name, key) for name, key in POD_FIELDS.items() if spelled(name) not in _NAMED),
)

VARIANTS = tuple(
    Variant(name, name, '{version: "2.3"}' if name == "trainjob" else "{}") for name in TARGETS
)
MINORS = (
    *(Variant(f"2.{y}", "trainjob", f'{{version: "2.{y}"}}') for y in range(4)),
    *(
        Variant(
            f"2.{y}, the cluster's runtime", "trainjob", f'{{version: "2.{y}", runtime: torch}}'
        )
        for y in range(4)
    ),
)

_ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: privileged
allow: [hostNetwork, hostIPC, hostPID, privileged, serviceAccountToken, podPatch]
"""
_SPEC = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: sample
image: {repository: registry.example.com/train, tag: "1.0"}
resources: {cpu: "1", memory: 1Gi}
gracePeriod: 30s
"""
_ENTRYPOINT = "entrypoint: {script: train.py}\n"
# What a target starts where the feature leaves that open: Ray alone has a program on one node.
_LAUNCHERS = {"rayjob": "launcher: ray\n"}
_FILE = JobFile("sample", "sample")
_ENGINE = engines.engine()


@cache
def rendered(feature: Feature | None, variant: Variant) -> render.Rendered:
    """A sample job on a target, with a feature or without any."""
    extra = feature.environment if feature else ""
    place = _document("environment.yaml", f"{_ENVIRONMENT}{_targets(variant)}\n{extra}")
    wanted = feature.spec if feature else "{}"
    common = _SPEC if "entrypoint" in load_rendered(wanted)[0] else _SPEC + _ENTRYPOINT
    common += _LAUNCHERS.get(variant.target, "")
    texts = (common, wanted, f"target: {variant.target}")
    layers = (Layer("job", _document(_FILE.path, text)) for text in texts)
    spec = stack((Reader(Folder(Path())).built_in, *layers))
    broken = violations.violations(schema.effective_job(), spec, str(_FILE))
    if broken:
        raise ValueError(f"{feature}: {broken[0].message}")
    environment = resolve.environment("sample", place)
    resolved_job = resolved(LoadedJob(_FILE, spec, (), (), ""), environment)
    return render.alone(resolved_job, render.Context(engine=_ENGINE))


def _targets(variant: Variant) -> str:
    return f"targets: {{{variant.target}: {variant.options}}}"


def _document(path: str, text: str) -> Document:
    parsed = parse(path, text.encode())
    if not isinstance(parsed, Document):
        raise TypeError(f"{text}: {parsed[0].message}")
    return parsed


def refusals(feature: Feature, variant: Variant) -> tuple[Finding, ...]:
    """Why a target does not render a feature; empty when it does."""
    outcome = rendered(feature, variant)
    return tuple(finding for finding in outcome.findings if finding.severity is Severity.ERROR)


def manifests(feature: Feature | None, variant: Variant) -> str:
    """Everything that is rendered for it but the chart's values."""
    files = rendered(feature, variant).files
    return "---\n".join(text for name, text in sorted(files.items()) if name != VALUES_FILE)


# --- the page ------------------------------------------------------------------------------------


def page() -> str:
    """The whole page: both tables, and the reason of each refusal."""
    lines = [
        f"<!-- Generated by rendering every feature on every target: `{COMMAND}`. Do not edit. -->",
        "# Targets",
        "",
        "The same job spec on each target. What a target cannot express is refused with a finding",
        "(TW021) at the line that requests it, and never left out silently.",
        "",
        "| target | kind | for |",
        "|---|---|---|",
        *(f"| `{t.name}` | {t.kind}, `{t.api_version}` | {t.summary} |" for t in TARGETS.values()),
        "",
        "## Features by target",
        "",
        *_table(VARIANTS, FEATURES),
        "",
        "### Why it is refused",
        *_reasons(),
        "",
        "## Kubeflow Trainer from 2.0 to 2.3",
        "",
        "A run brings a TrainingRuntime of its own, or refers to a ClusterTrainingRuntime",
        "(`targets.trainjob.runtime` in environment.yaml) and overrides what that minor version",
        "lets a job override. All other features are alike in all of them.",
        "",
        *_table(MINORS, tuple(f for f in FEATURES if len({_cell(f, v) for v in MINORS}) > 1)),
        "",
        "## What differs although it is rendered",
        "",
        *_deviations(),
        "",
        *_NOTES,
    ]
    return "\n".join(lines)


def _deviations() -> Iterator[str]:
    """What the targets themselves declare, and what the proof of their equivalence allows."""
    reported: dict[tuple[str, str], list[str]] = {}
    for target in TARGETS.values():
        for deviation in target.deviations:
            reported.setdefault((deviation.about, deviation.text), []).append(f"`{target.name}`")
    for about, text in sorted(reported):
        yield f"* **{about}** with {', '.join(reported[about, text])}: {text}"


_NOTES = """\
Everything else is the same on all of them: the tests compute from the rendered objects alone what
each process will find, and compare.

**Claims that are made** belong to the job, not to the run, on every target: the next run finds what
the last one left, and nothing deletes them.
""".splitlines()


def _cell(feature: Feature, variant: Variant) -> str:
    return "refused" if refusals(feature, variant) else "yes"


def _table(variants: tuple[Variant, ...], features: tuple[Feature, ...]) -> Iterator[str]:
    yield f"| feature | {' | '.join(v.title for v in variants)} |"
    yield f"|---|{'---|' * len(variants)}"
    for feature in features:
        yield f"| {feature.name} | {' | '.join(_cell(feature, v) for v in variants)} |"


def _reasons() -> Iterator[str]:
    for variant in VARIANTS:
        reasons = [
            f"* {feature.name}: {finding.message.partition(': ')[2]}."
            for feature in FEATURES
            for finding in refusals(feature, variant)[:1]
        ]
        if reasons:
            yield from ("", f"`{variant.target}`:", "", *reasons)


if __name__ == "__main__":
    main(__doc__, PAGE, f"{page()}\n", COMMAND)
