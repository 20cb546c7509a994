"""Runs the steps of a composite action as a GitHub runner does: real bash, real files, real git.

Only what action.yml uses of GitHub's expressions is understood; a step that `uses` another action
is noted and not run. https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
ACTION = ROOT / "action.yml"

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_TOKEN = re.compile(r"'[^']*'|&&|\|\||==|!=|!|[()]|[A-Za-z_][\w.-]*")
_OPERATORS = {"&&": " and ", "||": " or ", "==": "==", "!=": "!=", "!": " not ", "(": "(", ")": ")"}

_WHO = ("GIT_AUTHOR_", "GIT_COMMITTER_")  # a runner commits as git is configured there


@dataclass
class Run:
    """What a run of the action left behind."""

    log: str = ""
    failed: bool = False
    outputs: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)  # names of steps
    used: dict[str, dict[str, str]] = field(default_factory=dict)  # other actions, with inputs
    summary: str = ""


@dataclass
class Runner:
    """A runner's folders, the event it runs for, and the checkout it runs in."""

    workspace: Path
    temp: Path
    github: dict[str, Any]
    path: str = os.environ["PATH"]
    api: str = "http://127.0.0.1:1"
    action: Path = ACTION
    skip: tuple[str, ...] = ()
    uploads: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What actions of others answer, by the id of the step that uses them."""

    def run(self, **inputs: str) -> Run:
        """Every step whose condition holds, until one fails."""
        action = yaml.safe_load(self.action.read_text())
        context: dict[str, Any] = {"github": self.github, "steps": {}}
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(action["inputs"]), given
        defaults = {name: spec["default"] for name, spec in action["inputs"].items()}
        context["inputs"] = {
            name: given.get(name, fill(default, context)) for name, default in defaults.items()
        }
        done = Run()
        for step in action["runs"]["steps"]:
            condition = step.get("if")
            if step["name"] in self.skip or (condition and not evaluate(condition, context)):
                continue
            done.ran.append(step["name"])
            if "uses" in step:
                done.used[step["uses"]] = filled(step["with"], context)
                context["steps"][step.get("id")] = {"outputs": self.uploads.get(step.get("id"), {})}
                continue
            if not self._step(step, context, done):
                done.failed = True
                break
        done.outputs = {
            name: fill(spec["value"], context) for name, spec in action["outputs"].items()
        }
        summary = self.temp / "summary"
        done.summary = summary.read_text() if summary.exists() else ""
        return done

    def run_step(self, step: Mapping[str, Any], context: Mapping[str, Any]) -> Run:
        """One step of a workflow, whatever its condition is."""
        done = Run()
        whole = {"github": self.github, "steps": {}, **context}
        done.failed = not self._step(step, whole, done)
        outputs = whole["steps"].get(step.get("id"), {"outputs": {}})["outputs"]
        done.outputs = dict(outputs)
        return done

    def _step(self, step: Mapping[str, Any], context: dict[str, Any], done: Run) -> bool:
        assert step.get("shell", "bash") == "bash"
        files = {name: self.temp / name.lower() for name in ("OUTPUT", "PATH", "ENV")}
        for file in files.values():
            file.write_text("")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_WHO)},
            **{f"GITHUB_{name}": str(file) for name, file in files.items()},
            "PATH": self.path,
            "GITHUB_STEP_SUMMARY": str(self.temp / "summary"),
            "GITHUB_ACTION_PATH": str(self.action.parent),
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.api,
            "GITHUB_REPOSITORY": self.github["repository"],
            "GITHUB_SHA": self.github.get("sha", ""),
            "GITHUB_SERVER_URL": "https://github.com",
            "RUNNER_TEMP": str(self.temp),
            **filled(step.get("env", {}), context),
        }
        script = self.temp / "step.sh"
        script.write_text(step["run"])
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        done.log += ended.stdout
        added = files["PATH"].read_text().split()
        self.path = os.pathsep.join([*added, self.path])
        if "id" in step:
            pairs = (line.partition("=") for line in files["OUTPUT"].read_text().splitlines())
            context["steps"][step["id"]] = {"outputs": {key: value for key, _, value in pairs}}
        return ended.returncode == 0


def filled(values: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, str]:
    return {key: fill(str(value), context) for key, value in values.items()}


def fill(text: str, context: Mapping[str, Any]) -> str:
    """Text with its expressions replaced."""
    return _EXPRESSION.sub(lambda match: str(evaluate(match[1], context)), text)


def evaluate(expression: str, context: Mapping[str, Any]) -> Any:
    """An expression's value; what does not exist is the empty string."""

    def python(token: str) -> str:
        if token in _OPERATORS or token.startswith("'"):
            return _OPERATORS.get(token, token)
        return f"find({token!r})"

    def find(path: str) -> Any:
        value: Any = context
        for part in path.split("."):
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        return value

    assert not _TOKEN.sub("", expression).strip(), expression
    return eval("".join(map(python, _TOKEN.findall(expression))), {"find": find})
