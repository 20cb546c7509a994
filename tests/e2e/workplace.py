"""A fresh git repository with an environment of the cluster, and the real command line in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import git_repository as git
from live import Data, Differs
from trainwright.datatypes.environment import Environment
from trainwright.documents.yamlio import Document
from trainwright.specs import resolve

ENVIRONMENT = "e2e"
_SECONDS = 180

# What the jobs do: both words that every image with a shell has as programs.
RUNS = ("sleep", "3600")
ENDS = ("true",)
FAILS = ("false",)


@dataclass(frozen=True)
class Image:
    """Where the programs come from: name:tag@digest, of which the last two may be missing."""

    reference: str

    def fields(self) -> Data:
        rest, _, digest = self.reference.partition("@")
        name, _, tag = rest.rpartition(":") if ":" in rest.rpartition("/")[2] else (rest, "", "")
        return {
            key: value
            for key, value in {"repository": name, "tag": tag, "digest": digest}.items()
            if value
        }


class Workplace:
    """environments/e2e in a folder, with jobs that are added and operated as people do it."""

    def __init__(self, folder: Path, environment: Data, image: Image, access: tuple[str, ...]):
        self.root = git.init(folder)
        self.image, self.access = image, access
        self._environment = {
            "apiVersion": "trainwright.io/v1alpha1",
            "kind": "Environment",
            "podSecurity": "baseline",
            **environment,
        }
        self._write("environment.yaml", self._environment)

    @property
    def environment(self) -> Environment:
        document = Document("environment.yaml", self._environment, {}, {})
        return resolve.environment(ENVIRONMENT, document)

    @property
    def targets(self) -> Data:
        """What environment.yaml has of the targets: the versions of their operators."""
        found: Data = self._environment["targets"]
        return found

    def commit(self) -> None:
        git.commit(self.root)

    def job(self, name: str, target: str, command: tuple[str, ...], **fields: Any) -> None:
        self._write(
            f"jobs/{name}.yaml",
            {
                "apiVersion": "trainwright.io/v1alpha1",
                "kind": "JobSpec",
                "name": name,
                "target": target,
                "image": self.image.fields(),
                "entrypoint": {"argv": list(command)},
                "nodes": 2,
                "resources": {"cpu": "10m", "memory": "16Mi"},
                "shm": "none",
                "maxDuration": "2h",
                "gracePeriod": "5s",
                "retries": 0,
                **fields,
            },
        )

    def _write(self, path: str, data: Mapping[str, Any]) -> None:
        full = self.root / "environments" / ENVIRONMENT / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(yaml.safe_dump(dict(data), sort_keys=False), encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> str:
        """What the command prints; raises Differs when it ends with another exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "trainwright", "-C", str(self.root), *arguments],
            env={**os.environ, **git.ENVIRONMENT},
            capture_output=True, text=True, check=False, timeout=_SECONDS,
        )  # fmt: skip
        if done.returncode != code:
            words = f"{done.stderr.strip()} {done.stdout.strip()}".strip()
            command = f"trainwright {' '.join(arguments)}"
            raise Differs(f"`{command}` ended with exit code {done.returncode}: {words}")
        return done.stdout

    def render(self, *jobs: str) -> None:
        """Checks and renders some jobs: what is wrong with another is another one's."""
        selected = [f"{ENVIRONMENT}/{job}" for job in jobs]
        self.run("check", *selected)
        self.run("render", *selected)
        self.commit()
        self.run("render", *selected, "--check")

    def verb(self, verb: str, *arguments: str) -> str:
        """A verb of the lifecycle, with its commit."""
        return self.run(verb, *arguments, "--commit")

    def status(self, job: str) -> list[Data]:
        """What `trainwright status` shows of a job, a run each."""
        found: Data = json.loads(
            self.run("status", f"{ENVIRONMENT}/{job}", "-o", "json", *self.access)
        )
        items: list[Data] = found["items"]
        return items

    def reading(self, *arguments: str, code: int = 0) -> str:
        """A command that reads the cluster."""
        return self.run(*arguments, *self.access, code=code)

    def objects(self, job: str) -> list[Data]:
        """What is rendered of a job, in the order in which it is applied."""
        folder = self.root / "environments" / ENVIRONMENT / "rendered"
        listed = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
        files = [name for name in listed["resources"] or () if name.startswith(f"{job}/")]
        found = [
            body
            for name in files
            for body in yaml.safe_load_all((folder / name).read_text(encoding="utf-8"))
        ]
        return sorted(found, key=_wave)


def _wave(body: Data) -> int:
    notes = body["metadata"].get("annotations") or {}
    return int(notes.get("argocd.argoproj.io/sync-wave", "0"))
