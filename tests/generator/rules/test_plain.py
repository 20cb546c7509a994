"""What is special is in no plain pod: rules that are not run there would find nothing."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import yaml
from rule_samples import environment

from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.catalog import Catalog
from trainwright.rule_model.subject import Subject
from trainwright.rules import families
from trainwright.rules.plain import is_plain
from trainwright.rules.registry import RULES

PLAIN = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: llm
  namespace: ml
  labels: {app: llm, example.com/team: ml}
  annotations: {example.com/note: some text}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        metadata:
          labels: {app: llm}
          annotations: {example.com/note: some text}
        spec:
          restartPolicy: Never
          hostname: llm
          subdomain: llm
          schedulerName: default-scheduler
          priorityClassName: high
          imagePullSecrets: [{name: pull}]
          serviceAccountName: llm
          automountServiceAccountToken: false
          enableServiceLinks: false
          terminationGracePeriodSeconds: 60
          nodeSelector: {example.com/pool: gpus}
          tolerations:
          - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
          - {key: example.com/pool, operator: Equal, value: gpus}
          securityContext:
            fsGroup: 1000
            fsGroupChangePolicy: OnRootMismatch
            runAsGroup: 1000
            runAsNonRoot: true
            runAsUser: 1000
            seccompProfile: {type: RuntimeDefault}
          containers:
          - name: pytorch
            image: registry.example.com:5000/team/llm:1.2
            imagePullPolicy: IfNotPresent
            command: [torchrun, train.py]
            args: [--lr=1]
            workingDir: /work
            terminationMessagePath: /dev/termination-log
            terminationMessagePolicy: FallbackToLogsOnError
            env:
            - {name: NCCL_DEBUG, value: INFO}
            - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: WANDB_KEY, valueFrom: {secretKeyRef: {name: wandb, key: key}}}
            - {name: SETTING, valueFrom: {configMapKeyRef: {name: settings, key: setting.yaml}}}
            ports: [{name: metrics, containerPort: 9090, protocol: TCP}, {name: debug, containerPort: 9091}]
            resources:
              requests: {cpu: 4, memory: 8Gi, ephemeral-storage: 10Gi, nvidia.com/gpu: 8, amd.com/gpu: "1"}
              limits: {cpu: 500m, memory: 16Gi, ephemeral-storage: 10Gi, nvidia.com/gpu: 8, amd.com/gpu: "1"}
            securityContext:
              allowPrivilegeEscalation: false
              capabilities: {drop: [ALL]}
              readOnlyRootFilesystem: true
              runAsGroup: 1000
              runAsNonRoot: true
              runAsUser: 1000
              seccompProfile: {type: RuntimeDefault}
            volumeMounts:
            - {name: shm, mountPath: /dev/shm}
            - {name: data, mountPath: /data, readOnly: true}
            - {name: config, mountPath: /config/a.yaml, subPath: a.yaml}
            - {name: node, mountPath: /dev/infiniband}
            - {name: key, mountPath: /key}
          volumes:
          - {name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}
          - {name: data, persistentVolumeClaim: {claimName: data, readOnly: false}}
          - {name: config, configMap: {name: config}}
          - {name: node, hostPath: {path: /dev/infiniband, type: Directory}}
          - {name: key, secret: {secretName: key}}
"""
WORDS = (
    *("", "a", "A", "a.b", "a b", " a", "a\n", "-a", "a-", "a_b", "a--b", "é", ".", ".."),
    *("/", "/a", "/../a", "/proc", "/proc/a", "/data/a", "/dev", "/data/", "a/b", "A/b"),
    *("a..b/c", "a/b/c"),
    *("$A", "$(A)", "{{ a }}", "a" * 16, "a" * 53, "a" * 64, "a" * 300, "0", "1", "-1", "1.5"),
    *("01", "1e3", "1M", "1Mi", "1k", "100m", "0Gi", "99999999Gi", "image", "image:latest"),
    *("image:main", "image:1", "host:5000/image", "image:1@sha256:1", f"image@sha256:{'0' * 64}"),
    *("image ", "image/", "bash", "Exists", "Equal", "TCP", "sidecar", "ephemeral"),
)
KEYS = (
    *("", "a", "A", "-a", "a b", "A/b", "a..b/c", "a/b/c", "a" * 64, "rdma/hca", "hugepages-2Mi"),
    *("kueue.x-k8s.io/queue-name", "seccomp.security.alpha.kubernetes.io/pod", "hostPath"),
    *("container.apparmor.security.beta.kubernetes.io/a", "nvidia.com/gpu", "initContainers"),
)
OTHERS: tuple[Data, ...] = (
    *(None, 0, 1, -1, 1.5, 10**12, 65536, True, False),
    *([], {}, ["a"], {"a": "b"}, [{}], [{}] * 2),
)


def _changed(data: Data) -> Iterator[Data]:
    """Data with one value changed or left out, one key more, or an item there twice."""
    yield from (*WORDS, *OTHERS)
    if isinstance(data, dict) and data:
        yield from ({**data, key: next(iter(data.values()))} for key in KEYS)
    for key, value in [*data.items()] if isinstance(data, dict) else ():
        yield {k: v for k, v in data.items() if k != key}
        yield from ({**data, key: changed} for changed in _changed(value))
    for index, item in enumerate(data) if isinstance(data, list) else ():
        yield [*data[:index], *data[index + 1 :]]
        yield [*data, copy.deepcopy(item)]
        yield from ([*data[:index], c, *data[index + 1 :]] for c in _changed(item))


def _all() -> Iterator[Data]:
    """The object, and others with a change in their metadata or in their pods."""
    body = yaml.load(PLAIN, Loader=yaml.CSafeLoader)
    yield body
    yield from ({**body, "metadata": changed} for changed in _changed(body["metadata"]))
    master = body["spec"]["pytorchReplicaSpecs"]["Master"]
    for changed in _changed(master["template"]):
        specs = {"Master": {**master, "template": changed}}
        yield {**body, "spec": {"pytorchReplicaSpecs": specs}}


def _special(subject: Subject) -> set[str]:
    """What rules find that do not run on plain pods."""
    looking = [rule for rule in RULES.values() if rule.special]
    return {rule.id for rule in looking for _ in rule.run(subject)}


def test_plain_pods_are_spared_the_rules_about_what_is_special() -> None:
    subject = subject_of(Manifest(body=next(_all())), environment())
    assert is_plain(subject)
    assert not {rule.id for rule in families.concerning(subject) if rule.special}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_nothing_special_is_found_in_plain_pods(version: str) -> None:
    setting = environment({"kubernetes": {"version": version}})
    definition = Catalog(version).find("kubeflow.org/v1", "PyTorchJob")
    assert definition is not None
    subjects = (subject_of(Manifest(body=body), setting) for body in _all())
    plain = [subject for subject in subjects if is_plain(subject)]
    assert len(plain) > 300
    for subject in plain:
        assert not _special(subject), subject.body
        assert not definition.repeated(subject.body), subject.body


def test_an_object_without_pods_is_not_plain() -> None:
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llm"}}
    assert not is_plain(subject_of(Manifest(body=body), environment()))
