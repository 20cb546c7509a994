"""Fields of Jobs, Services, ConfigMaps, Secrets and quotas that only the API server refuses."""

from __future__ import annotations

import pytest
import yaml

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules.registry import RULES

JOB = "kind: Job\napiVersion: batch/v1\nspec: {{{}, template: {{spec: {{restartPolicy: Never, containers: [{{name: a, image: a:1}}]}}}}}}"
INDEXED = "completionMode: Indexed, completions: 4"
FAILS = "podFailurePolicy: {rules: [{action: FailJob, %s}]}"
CRON = "kind: CronJob\napiVersion: batch/v1\nspec: {{{}}}"
SERVICE = "kind: Service\napiVersion: v1\nspec: {{{}}}"
LABELLED = "kind: Job\napiVersion: batch/v1\nspec: {{{}, template: {{metadata: {{labels: {{a: b, controller-uid: u}}}}, spec: {{restartPolicy: Never, containers: [{{name: a, image: a:1}}]}}}}}}"
POD = "kind: Pod\napiVersion: v1\nmetadata: {{name: run}}\nspec: {{containers: [{{name: a, image: a:1}}], {}}}"
MIRROR = "kind: Pod\napiVersion: v1\nmetadata: {{name: run, annotations: {{kubernetes.io/config.mirror: a}}}}\nspec: {{containers: [{{name: a, image: a:1}}], {}}}"
ANNOTATED = (
    "kind: Service\napiVersion: v1\nmetadata: {{annotations: {{{}}}}}\nspec: {{type: LoadBalancer}}"
)
CONFIG = "kind: ConfigMap\napiVersion: v1\n{}"
SECRET = "kind: Secret\napiVersion: v1\n{}"
QUOTA = "kind: ResourceQuota\napiVersion: v1\nspec: {{{}}}"
CLAIM = "kind: PersistentVolumeClaim\napiVersion: v1\nspec: {{{}}}"

CASES = [
    (JOB, "parallelism: 2", ""),
    (JOB, "backoffLimit: -1", "backoffLimit is -1, and can be 0 or more"),
    (JOB, "ttlSecondsAfterFinished: -1", "ttlSecondsAfterFinished is -1, and can be 0 or more"),
    (JOB, "managedBy: mine", 'managedBy: "mine" is not a domain, a / and a path'),
    (JOB, "managedBy: kueue.x-k8s.io/multikueue", ""),
    (JOB, INDEXED, ""),
    (JOB, "completionMode: Indexed", "completionMode: Indexed needs completions"),
    (JOB, "backoffLimitPerIndex: 1", "backoffLimitPerIndex needs completionMode: Indexed"),
    (JOB, INDEXED + ", maxFailedIndexes: 1", "maxFailedIndexes needs backoffLimitPerIndex"),
    (JOB, INDEXED + ", backoffLimitPerIndex: 1, maxFailedIndexes: 5", "maxFailedIndexes is 5, and can be 4 here"),
    (JOB, INDEXED + ", parallelism: 100001", "parallelism is 100001, and can be 100000 here"),
    (JOB, "completionMode: Indexed, completions: 100001, backoffLimitPerIndex: 1", "over 100000 completions need maxFailedIndexes"),
    (JOB, INDEXED + ", successPolicy: {rules: [{succeededIndexes: '0-1,3', succeededCount: 3}]}", ""),
    (JOB, INDEXED + ", successPolicy: {rules: [{succeededIndexes: '3,0'}]}", 'succeededIndexes: "3,0" is not numbers and ranges'),
    (JOB, INDEXED + ", successPolicy: {rules: [{succeededIndexes: 0-4}]}", "succeededIndexes has 4, and the last index is 3"),
    (JOB, INDEXED + ", successPolicy: {rules: [{succeededIndexes: '0', succeededCount: 2}]}", "succeededCount is 2, and can be 1"),
    (JOB, INDEXED + ", successPolicy: {rules: []}", "rules is empty"),
    (JOB, "successPolicy: {rules: [{succeededCount: 1}]}", "successPolicy needs completionMode: Indexed"),
    (JOB, FAILS % "onExitCodes: {containerName: a, operator: In, values: [1, 42]}", ""),
    (JOB, FAILS % "onExitCodes: {containerName: b, operator: In, values: [1]}", 'there is no container "b"'),
    (JOB, FAILS % "onExitCodes: {operator: In, values: [0]}", "an exit code of 0 is not a failure"),
    (JOB, FAILS % "onExitCodes: {operator: NotIn, values: [0]}", ""),
    (JOB, FAILS % "onExitCodes: {operator: In, values: [2, 1]}", "values go upwards, each once"),
    (JOB, FAILS % "onExitCodes: {operator: In, values: []}", "values is empty"),
    (JOB, FAILS % "onPodConditions: [{type: a b, status: 'True'}]", 'type: "a b" is not a qualified name'),
    (JOB, "podFailurePolicy: {rules: [{action: FailJob}]}", "needs one of onExitCodes, onPodConditions"),
    (JOB, "podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [1]}}]}", "action: FailIndex needs backoffLimitPerIndex"),
    (JOB, "podReplacementPolicy: TerminatingOrFailed, " + FAILS % "onExitCodes: {operator: In, values: [1]}", "podFailurePolicy needs podReplacementPolicy: Failed"),
    (LABELLED, "selector: {matchLabels: {a: b}}", ""),
    (LABELLED, "selector: {matchLabels: {a: b, job-name: x}}", ""),
    (LABELLED, "selector: {matchLabels: {a: c}}", "selector has a: c, and the labels of the pods a: b"),
    (LABELLED, "selector: {matchLabels: {controller-uid: v}}", "selector has controller-uid: v, and the labels of the pods controller-uid: u"),
    (LABELLED, "selector: {matchLabels: {app: x}}", "selector has app: x, which the pods do not have"),
    (JOB, "manualSelector: true, selector: {matchLabels: {app: x}}", "selector has app: x, which the pods do not have"),
    (POD, "volumes: [{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}, {name: b, persistentVolumeClaim: {claimName: tmp}}]", ""),
    (POD, "volumes: [{name: tmp, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}, {name: b, persistentVolumeClaim: {claimName: run-tmp}}]", "the claim run-tmp is made for the volume tmp, and no other can name it"),
    (MIRROR, "nodeName: here", ""),
    (MIRROR, "restartPolicy: Never", "kubernetes.io/config.mirror needs spec.nodeName"),
    (CRON, "schedule: '0 3 * * *', timeZone: Europe/Rome", ""),
    (CRON, "schedule: '@daily'", ""),
    (CRON, "schedule: error", 'schedule: "error" has not five fields'),
    (CRON, "schedule: TZ=UTC 0 3 * * *", 'schedule: "TZ=UTC 0 3 * * *" has a time zone'),
    (CRON, "schedule: '@daily', timeZone: ''", "timeZone is empty"),
    (CRON, "schedule: '@daily', jobTemplate: {spec: {selector: {matchLabels: {a: b}}}}", "selector is made for each Job, and cannot be set"),
    (SERVICE, "clusterIP: None, clusterIPs: [None], ports: [{port: 80}]", ""),
    (SERVICE, "ports: [{port: 65536}]", "port is 65536, and can be 1 to 65535"),
    (SERVICE, "ports: [{port: 1, name: a}, {port: 2}]", "one of several ports, which need names"),
    (SERVICE, "ports: [{port: 1, name: a}, {port: 2, name: a}]", 'ports has the name "a" twice'),
    (SERVICE, "ports: [{port: 1, name: A}]", 'name: "A" is not a DNS label'),
    (SERVICE, "ports: [{port: 1, nodePort: 30000}]", "nodePort needs type: NodePort or LoadBalancer"),
    (SERVICE, "type: NodePort, ports: [{port: 1, name: a, nodePort: 1}, {port: 2, name: b, nodePort: 1}]", "nodePort 1 is taken twice"),
    (SERVICE, "clusterIP: 10.0.0.1, clusterIPs: [10.0.0.2]", "the first of clusterIPs is the clusterIP, which is 10.0.0.1"),
    (SERVICE, "clusterIP: a, clusterIPs: [a]", 'clusterIPs: "a" is not an IP address'),
    (SERVICE, "type: ExternalName, externalName: a.example.com.", ""),
    (SERVICE, "type: ExternalName", "type: ExternalName needs an externalName"),
    (SERVICE, "type: ExternalName, externalName: a, clusterIP: 10.0.0.1", "clusterIP and type: ExternalName exclude each other"),
    (SERVICE, "externalIPs: [host]", 'externalIPs: "host" is not an IP address'),
    (SERVICE, "type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.1/33]", 'loadBalancerSourceRanges: "10.0.0.1/33" is not a range'),
    (SERVICE, "type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.1/8]", ""),
    (SERVICE, "allocateLoadBalancerNodePorts: false", "allocateLoadBalancerNodePorts needs type: LoadBalancer"),
    (SERVICE, "ipFamilies: [IPv4, IPv4]", "ipFamilies has one twice"),
    (SERVICE, "ipFamilies: [ipv4]", 'ipFamilies: "ipv4" is not one of IPv4 and IPv6'),
    (SERVICE, "clusterIP: '2001::1', ipFamilies: [IPv6]", ""),
    (SERVICE, "clusterIP: None, clusterIPs: [None], ipFamilies: [IPv6, IPv4]", ""),
    (SERVICE, "clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, '2001::1'], ipFamilies: [IPv4, IPv6]", ""),
    (SERVICE, "clusterIP: '2001::1', ipFamilies: [IPv4]", "clusterIP is 2001::1, which is not of IPv4, the first of ipFamilies"),
    (SERVICE, "clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 10.0.0.2], ipFamilies: [IPv4, IPv6]", "clusterIP is 10.0.0.2, which is not of IPv6, the second of ipFamilies"),
    (SERVICE, "clusterIP: '2001::1', clusterIPs: ['2001::1', '']", "clusterIPs has an empty address"),
    (SERVICE, "clusterIPs: ['', '2001::1']", "clusterIPs has an empty address"),
    (SERVICE, "sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90}}", ""),
    (SERVICE, "sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90}}", "sessionAffinityConfig needs sessionAffinity: ClientIP"),
    (SERVICE, "sessionAffinityConfig: {clientIP: {timeoutSeconds: 90}}", "sessionAffinityConfig needs sessionAffinity: ClientIP"),
    (ANNOTATED, "service.beta.kubernetes.io/load-balancer-source-ranges: '10.0.0.0/8, 2001:db8::/64'", ""),
    (ANNOTATED, "service.beta.kubernetes.io/load-balancer-source-ranges: '${RANGES}'", ""),
    (ANNOTATED, "service.beta.kubernetes.io/load-balancer-source-ranges: foo.bar", 'service.beta.kubernetes.io/load-balancer-source-ranges: "foo.bar" is not a range'),
    (ANNOTATED, "service.kubernetes.io/topology-mode: Auto, service.kubernetes.io/topology-aware-hints: Auto", ""),
    (ANNOTATED, "service.kubernetes.io/topology-mode: Auto, service.kubernetes.io/topology-aware-hints: disabled", "service.kubernetes.io/topology-aware-hints is disabled, and service.kubernetes.io/topology-mode Auto: both have to be the same"),
    (SERVICE, "selector: {a=b: c}", "a=b in selector is not a qualified name"),
    (CONFIG, "data: {a.b_c: '', $KEY: ''}", ""),
    (CONFIG, "data: {..: a}", 'the key ".." is not a key of a ConfigMap'),
    (CONFIG, "data: {a: b}\nbinaryData: {a: Yg==}", 'data has the key "a", too'),
    (CONFIG, f"data: {{a: {'a' * 2**20}}}", ""),
    (CONFIG, f"data: {{a: {'a' * 2**20}, b: c}}", "data has 1048577 bytes, 1 over 1048576"),
    (SECRET, "type: kubernetes.io/tls\ndata: {tls.crt: YQ==}", "type: kubernetes.io/tls needs the key tls.key"),
    (SECRET, "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{'}", "type: kubernetes.io/dockerconfigjson needs JSON in .dockerconfigjson"),
    (SECRET, "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '${CONFIG}'}", ""),
    (SECRET, "type: kubernetes.io/basic-auth\nstringData: {username: a}", ""),
    (SECRET, "type: kubernetes.io/basic-auth", "type: kubernetes.io/basic-auth needs the key username or password"),
    (SECRET, "type: kubernetes.io/service-account-token", "type: kubernetes.io/service-account-token needs the annotation"),
    (SECRET, "stringData: {a b: c}", 'the key "a b" is not a key of a ConfigMap or Secret'),
    (QUOTA, "hard: {requests.nvidia.com/gpu: 8, count/jobs.batch: 5}", ""),
    (QUOTA, "hard: {pods: '-1'}", "pods is -1, and cannot be negative"),
    (QUOTA, "hard: {pods: 100m}", "pods is 100m, and is counted in whole numbers"),
    (QUOTA, "hard: {cpu: 1, requests.storage: 1Gi, services.nodeports: 0, hugepages-2Mi: 1Gi, requests.hugepages-2Mi: 1Gi, gold.storageclass.storage.k8s.io/requests.storage: 1Gi}", ""),
    (QUOTA, "hard: {storage: 1Gi}", "storage is not a valid resource of a quota"),
    (QUOTA, "hard: {gpu: 1}", "gpu is not a valid resource of a quota"),
    (QUOTA, "scopes: [foo]", 'scopes: "foo" is not one of '),
    (QUOTA, "scopes: [BestEffort, NotBestEffort]", "BestEffort and NotBestEffort exclude each other"),
    (CLAIM, "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}", ""),
    (CLAIM, "accessModes: [ReadWriteOnce]", "there is no resources.requests.storage"),
    (CLAIM, "accessModes: [ReadWriteOnce], storageClassName: Fast, resources: {requests: {storage: 1Gi}}", 'storageClassName: "Fast" is not a DNS subdomain'),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "fields", "message"), CASES)
def test_fields_of_objects(manifest: str, fields: str, message: str) -> None:
    body = yaml.safe_load(manifest.format(fields))
    hits = RULES["TW519"].run(subject_of(Manifest(body=body), nowhere("1.36")))
    found = [hit.message for hit in hits]
    assert len(found) == bool(message), found
    assert not message or found[0].startswith(message)


def test_the_jobs_of_a_jobset() -> None:
    spec = "{replicatedJobs: [{name: a, template: {spec: {parallelism: -1}}}]}"
    body = yaml.safe_load(f"kind: JobSet\napiVersion: jobset.x-k8s.io/v1alpha2\nspec: {spec}")
    (hit,) = RULES["TW519"].run(subject_of(Manifest(body=body), nowhere("1.36")))
    assert hit.pointer == "/spec/replicatedJobs/0/template/spec/parallelism"


def test_the_name_of_a_claim_that_is_made_for_a_pod_has_room() -> None:
    pod = yaml.safe_load(POD.format("volumes: [{name: tmp, ephemeral: {volumeClaimTemplate: {}}}]"))
    for length, found in ((249, 0), (250, 1)):
        pod["metadata"]["name"] = "a" * length
        hits = RULES["TW519"].run(subject_of(Manifest(body=pod), nowhere("1.36")))
        messages = [hit.message for hit in hits if "made for the volume" in hit.message]
        assert len(messages) == found, length


def test_what_a_secret_holds_is_not_shown() -> None:
    secret = "kind: Secret\napiVersion: v1\ntype: kubernetes.io/dockercfg\nstringData: {.dockercfg: hunter2, 'a b': hunter2}"
    hits = RULES["TW519"].run(subject_of(Manifest(body=yaml.safe_load(secret)), nowhere("1.36")))
    found = [hit.message for hit in hits]
    assert len(found) == 2
    assert "hunter2" not in " ".join(found)
