"""The life of runs on a live cluster: a table of what held, did not hold, or was skipped and why.

    make e2e KUBECONFIG=~/.kube/config
    make e2e KUBECONFIG=... E2E="--targets job,jobset --out table"

Everything happens in a namespace of its own with a random name, which is deleted at the end, after
a failure and after Ctrl-C too. Exit codes: 0 all that was tried held, 1 something did not, 2 it
could not begin, 130 Ctrl-C; make itself ends with 2 in each case but the first.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from engines import ENGINES, Engines
from kubelet import Kubelet
from life import Ground, Life, Steps
from live import Data, Live, Refused
from outcomes import Outcome, Outcomes, Result
from queues import Queued, Queues
from survey import TARGETS, Survey, survey
from traces import Traces
from workplace import Image, Workplace

IMAGE = (
    "docker.io/library/busybox:1.37.0"
    "@sha256:bdf57e528e45e4433820e045b29b4597825a1c9e38353532d90a01445013f82e"
)
LABEL = "trainwright.io/e2e"
_CLEANING = 120.0  # seconds at the least: a namespace is emptied by its controllers


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make e2e", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--context", default="", help="of the kubeconfig; its current one")
    parser.add_argument("--targets", type=_list, default=(), help="by default all that are served")
    parser.add_argument("--image", default=IMAGE, help="with the programs sleep, true and false")
    parser.add_argument("--seconds", type=float, default=180.0, help="how long to wait for a step")
    parser.add_argument("--out", type=Path, help="write OUT.json and OUT.md")
    parser.add_argument(
        "--without-kubelet",
        action="store_true",
        help="on a cluster without nodes: write the statuses of pods as a kubelet would",
    )
    parser.add_argument(
        "--without-controller",
        type=_uncontrolled,
        default=(),
        metavar="TARGETS",
        help="served and not acted on, argocd and flux among them: only the API is tried",
    )
    parser.add_argument(
        "--version-of",
        action="append",
        type=_pair,
        default=[],
        metavar="PART=VERSION",
        help='where no image shows it, such as --version-of "Kubeflow Trainer=2.3.0"',
    )
    parser.add_argument(
        "--git-address",
        default="",
        metavar="HOST[:PORT]",
        help="by which Argo CD and Flux reach this machine, which then serves a repository",
    )
    return parser.parse_args()


def _list(text: str, known: Iterable[str] = TARGETS) -> tuple[str, ...]:
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name} is not one of {', '.join(known)}")
    return names


def _uncontrolled(text: str) -> tuple[str, ...]:
    return _list(text, (*TARGETS, *ENGINES))


def _pair(text: str) -> tuple[str, str]:
    name, found, version = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is not PART=VERSION")
    return name, version


def main() -> int:
    options = _arguments()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        live = Live(options.kubeconfig, options.context)
        found = survey(live, dict(options.version_of))
    except Exception as error:  # noqa: BLE001 - of the client, of TLS, of the file
        print(f"cannot begin: {error}", file=sys.stderr)
        return 2
    outcomes = Outcomes({**found.versions, "nodes": str(found.nodes)})
    code = 0
    try:
        with Traces(live, outcomes, max(options.seconds, _CLEANING)) as traces:
            _session(options, live, found, outcomes, traces)
    except Refused as refused:
        print(f"cannot go on: {refused}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
        words = "interrupted: what is not in the table was not tried"
        outcomes.steps.append(Outcome("cluster", "session", Result.SKIPPED, words))
    print(outcomes.markdown(edits=False))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.with_suffix(".json").write_text(outcomes.json(), encoding="utf-8")
        options.out.with_suffix(".md").write_text(outcomes.markdown(), encoding="utf-8")
    return code or int(outcomes.failed)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _namespace(traces: Traces, live: Live) -> str:
    """A namespace of a random name."""
    name = f"trainwright-e2e-{secrets.token_hex(4)}"
    print(f"namespace {name} of {live.host}", file=sys.stderr)
    labels = {LABEL: name, "pod-security.kubernetes.io/enforce": "baseline"}
    metadata = {"name": name, "labels": labels}
    traces.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name


def _session(
    options: argparse.Namespace, live: Live, found: Survey, outcomes: Outcomes, traces: Traces
) -> None:
    namespace = _namespace(traces, live)
    no_kubelet = ""
    if options.without_kubelet:
        live.tick = Kubelet(live, namespace).tick
    elif not found.nodes:
        no_kubelet = "the cluster has no nodes, so no pod runs (see --without-kubelet)"
    access: tuple[str, ...] = ("--kubeconfig", options.kubeconfig)
    access += ("--context", options.context) if options.context else ()
    with TemporaryDirectory(prefix="trainwright-e2e-") as folder:
        queues = Queues(live, found, namespace, traces)
        environment = {**_environment(found, namespace), **queues.environment}
        ground = Ground(
            live=live,
            workplace=Workplace(Path(folder) / "runs", environment, Image(options.image), access),
            outcomes=outcomes,
            namespace=namespace,
            targets=options.targets or tuple(TARGETS),
            seconds=options.seconds,
            no_controller=frozenset(options.without_controller),
            no_kubelet=no_kubelet,
        )
        for target in ground.targets:
            _target(ground, found, target)
        Steps(ground, "cluster").step("queues are made", queues.make)
        for target in ground.targets:
            if target not in found.missing:
                Queued(ground, target, queues).take()
        Engines(ground, found, traces, Path(folder), options.git_address).take()


def _target(ground: Ground, found: Survey, target: str) -> None:
    if target in found.missing:
        skipped = Outcome(target, "render", Result.SKIPPED, found.missing[target])
        ground.outcomes.steps.append(skipped)
        return
    Life(ground, target).take()


def _environment(found: Survey, namespace: str) -> Data:
    return {
        "namespace": namespace,
        "kubernetes": {"version": found.minor("Kubernetes", "")},
        "targets": {
            "pytorchjob": {"version": found.minor("training operator", "1.9")},
            "trainjob": {"version": found.minor("Kubeflow Trainer", "2.3")},
            "jobset": {},
            "job": {},
            "trainingjob": {},
        },
        "gitops": {"engine": "none"},
    }


if __name__ == "__main__":
    sys.exit(main())
