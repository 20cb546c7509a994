"""The same runs by Argo CD and by Flux, from a repository that this machine serves to them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import yaml

import survey
from git_server import Served, serving
from life import REFUSED_VERBS, Ground, Steps
from live import Data, Differs, Missing
from survey import Survey
from traces import Traces
from workplace import ENVIRONMENT, RUNS, Workplace

_PATIENCE = 10.0  # seconds in which a sync that changes something would have done it
ENGINES = {"argocd": "Argo CD", "flux": "Flux"}
_KINDS = {"argocd": survey.ARGO_CD, "flux": survey.FLUX}
_NAMESPACES = {"argocd": "argocd", "flux": "flux-system"}
# What a sync is started by, instead of waiting for the next one.
_REFRESH = {
    "argocd": ("argocd.argoproj.io/refresh", ("Application", "argoproj.io/v1alpha1")),
    "flux": ("reconcile.fluxcd.io/requestedAt", ("GitRepository", "source.toolkit.fluxcd.io/v1")),
}


def _is_synced(status: Data) -> bool:
    return bool((status.get("sync") or {}).get("status") == "Synced")


def _is_ready(status: Data) -> bool:
    conditions = status.get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


_SYNCED = {
    "argocd": (("argoproj.io/v1alpha1", "Application"), _is_synced),
    "flux": (survey.FLUX, _is_ready),
}
_ARGO_CD_ONLY = "argocd-cm is the whole Argo CD's, and was not changed: its health checks are not"


class Engines:
    """Both engines, one after the other."""

    def __init__(self, ground: Ground, found: Survey, traces: Traces, folder: Path, address: str):
        self._ground, self._found, self._traces = ground, found, traces
        self._folder, self._address = folder, address

    def take(self) -> None:
        for engine, name in ENGINES.items():
            Engine(self._ground, self._found, self._traces, engine, name).take(
                self._folder, self._address
            )


class Engine(Steps):
    """One engine, with a run of each target that can run here."""

    def __init__(self, ground: Ground, found: Survey, traces: Traces, engine: str, name: str):
        super().__init__(ground, name)
        self.engine, self._traces = engine, traces
        self.targets = [
            target
            for target in ground.targets
            if target not in found.missing and target not in ground.no_controller
        ]
        self._kubernetes = found.minor("Kubernetes", "")
        self._namespace = self._where()

    def take(self, folder: Path, address: str) -> None:
        why = self._why_not(address)
        if why:
            self.step("engine: wire", lambda: _missing(why))
            return
        try:
            with serving(folder / f"{self.engine}.served", address) as served:
                self._begin(folder / self.engine, served)
                self._steps(served)
        except OSError as error:
            cannot = f"nothing can be served at {address}: {error}"
            self.step("engine: wire", lambda: _missing(cannot))

    def _why_not(self, address: str) -> str:
        if not survey.has(self.live, _KINDS[self.engine]):
            return f"{self.target} is not installed"
        if not address:
            return f"{self.target} has no address of this machine (--git-address)"
        return "" if self.targets else "no target has a controller here"

    def _where(self) -> str:
        """The namespace of the engine itself: where its controllers are, or the usual one."""
        part = {"argocd": "argocd", "flux": "kustomize-controller"}[self.engine]
        for kind in ("StatefulSet", "Deployment"):
            for owner in self.live.list("apps/v1", kind):
                if owner["metadata"]["name"].startswith(part):
                    return str(owner["metadata"]["namespace"])
        return _NAMESPACES[self.engine]

    def _begin(self, folder: Path, served: Served) -> None:
        old = self.ground.workplace
        gitops = {
            "engine": self.engine,
            "name": f"{self.ground.namespace}-{self.engine}",
            "namespace": self._namespace,
            "repository": {"url": served.url},
        }
        environment = {
            "namespace": self.ground.namespace,
            "kubernetes": {"version": self._kubernetes},
            "targets": old.targets,
            "gitops": gitops,
        }
        self.workplace = Workplace(folder, environment, old.image, old.access)
        self.ground = replace(self.ground, workplace=self.workplace)

    def _steps(self, served: Served) -> None:
        self.step("engine: wire", lambda: self._wire(served))
        self.step("engine: first sync", self._synced, ("engine: wire",))
        first = ("engine: first sync",)
        self.step("engine: shows that it is in sync", self._shows, first)
        self.step("engine: another sync changes nothing", lambda: self._again(served), first)
        self.step("engine: suspend by a commit", lambda: self._by_git(served, "suspend"), first)
        suspended = ("engine: suspend by a commit",)
        self.step("engine: resume by a commit", lambda: self._by_git(served, "resume"), suspended)
        self.step("engine: what leaves git goes on", lambda: self._leaves(served), first)

    def _job(self, target: str) -> str:
        return f"{target}-{self.engine}"

    def _bodies(self) -> Iterator[Data]:
        for target in self.targets:
            yield from self.workplace.objects(self._job(target))

    def _wire(self, served: Served) -> str:
        for target in self.targets:
            self.workplace.job(self._job(target), target, RUNS)
        self.workplace.render(*map(self._job, self.targets))
        served.push(self.workplace.root)
        self.workplace.run("gitops", "wire", ENVIRONMENT, "--out", "wiring")
        self.workplace.run("gitops", "wire", ENVIRONMENT, "--out", "wiring", "--check")
        files = sorted((self.workplace.root / "wiring" / ENVIRONMENT).glob("*.yaml"))
        wired = [body for file in files for body in yaml.safe_load_all(file.read_text("utf-8"))]
        for body in wired:
            self._traces.apply(body)
        return f"{len(wired)} objects" + (f"; {_ARGO_CD_ONLY}" if self.engine == "argocd" else "")

    def _sync(self) -> None:
        annotation, (kind, api_version) = _REFRESH[self.engine]
        value = "normal" if self.engine == "argocd" else str(time.time())
        prefix = f"{self.ground.namespace}-{self.engine}"
        for body in self.live.list(api_version, kind, self._namespace):
            if body["metadata"]["name"].startswith(prefix):
                self.live.merge(body, {"metadata": {"annotations": {annotation: value}}})

    def _synced(self) -> str:
        if self.engine in self.ground.no_controller:
            raise Missing(f"{self.target} does not run (--without-controller)")
        bodies = list(self._bodies())
        self.until(f"{len(bodies)} objects", lambda: all(self.live.get(body) for body in bodies))
        return f"{len(bodies)} objects"

    def _shows(self) -> str:
        kind, in_sync = _SYNCED[self.engine]
        own = f"{self.ground.namespace}-{self.engine}"

        def look() -> bool:
            found = self.live.list(*kind, self._namespace)
            ours = [body for body in found if body["metadata"]["name"].startswith(own)]
            return bool(ours) and all(in_sync(body.get("status") or {}) for body in ours)

        self.until(f"every {kind[1]} is in sync", look)
        return ""

    def _generations(self) -> dict[str, int]:
        found = (self.live.get(body) for body in self._bodies())
        return {
            body["metadata"]["uid"]: body["metadata"].get("generation", 0) for body in found if body
        }

    def _again(self, served: Served) -> str:
        before = self._generations()
        (self.workplace.root / "README.md").write_text("A commit that changes no run.\n")
        self._commit(served)
        time.sleep(_PATIENCE)
        after = self._generations()
        if before != after:
            raise Differs(f"generations were {before} and are {after}")
        return ""

    def _commit(self, served: Served) -> None:
        self.workplace.commit()
        served.push(self.workplace.root)
        self._sync()

    def _by_git(self, served: Served, verb: str) -> str:
        targets = [t for t in self.targets if (t, "suspend") not in REFUSED_VERBS]
        for target in targets:
            self.workplace.verb(verb, f"{ENVIRONMENT}/{self._job(target)}")
        self._commit(served)
        wanted = verb == "suspend"
        self.until(
            f"all are {'suspended' if wanted else 'resumed'}",
            lambda: all(self._suspended(target) is wanted for target in targets),
        )
        return ", ".join(targets)

    def _suspended(self, target: str) -> bool:
        kind = survey.TARGETS[target][1]
        body = next(b for b in self.workplace.objects(self._job(target)) if b["kind"] == kind)
        spec = (self.live.get(body) or {"spec": {}})["spec"]
        return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))

    def _leaves(self, served: Served) -> str:
        """An edit that begins another run: the run before leaves git, and nothing deletes it."""
        before = list(self._bodies())
        for target in self.targets:
            self.workplace.job(self._job(target), target, RUNS, env={"E2E": "another run"})
        self.workplace.render(*map(self._job, self.targets))
        self._commit(served)
        self._synced()
        gone = [body["metadata"]["name"] for body in before if not self.live.get(body)]
        if gone:
            raise Differs(f"{', '.join(gone)} went with its manifest")
        return f"{len(before)} objects"


def _missing(why: str) -> str:
    raise Missing(why)
