"""Texts of several lines are blocks in what is rendered, which people can read, and lose nothing."""

from __future__ import annotations

import json

import pytest
import yaml

from normal_forms import normal_form
from repository import EVERY_TARGET, Repository
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.helm.engines import engine
from trainwright.kinds import TARGETS

ENVIRONMENT = (
    """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: baseline
"""
    + EVERY_TARGET
)
SCRIPT = "set -e\n\nif true; then\n  echo 'a: b' # c\n  echo \"é\"\nfi\n--- x\n"
TWO_LINES = 'env: {T: "a\\nb"}\n'
TEXTS = {
    "a script": SCRIPT,
    "without a last line break": SCRIPT.rstrip("\n"),
    "two at the end": "a\nb\n\n",
    "only line breaks": "\n\n",
    "blanks in front": "  a\nb",
    "blanks at the end of a line": "a  \nb",
    "a tab in a script": "if a; then\n\tb\nfi\n",
    "a tab in front": "\ta\nb",
    "a line of blanks": "a\n   \nb",
    "a line of a tab": "a\n\t\nb",
    "a carriage return": "a\r\nb",
    "a byte order mark": "a\ufeff\nb",
    "separators": "a\u2028b\u2029c\u0085\nd",
    "an escape": "a\x1b\nb",
    "a delete": "a\x7f\nb",
    "a face": "a\n\U0001f600\n",
    "a comment": "# a\n#b",
    "a document": "---\na\n...\n",
    "a dollar": "$a ${b} $$\n$(c)",
    "one line": "one line",
    "a line break in front": "\na",
}  # fmt: skip


def _rendered(repository: Repository, target: str, extra: str) -> dict[str, str]:
    repository.write("prod/environment.yaml", ENVIRONMENT)
    text = (
        "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\n"
        f"image: {{repository: r.example.com/x, tag: '1'}}\ntarget: {target}\n"
        f"maxDuration: null\n{extra}"
    )
    repository.write("prod/jobs/llm.yaml", text)
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered/llm"
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}


def _manifests(files: dict[str, str], target: str) -> tuple[Manifest, ...]:
    envelope = TARGETS[target].envelope or dict
    return tuple(
        Manifest(body=envelope(body), path=path)
        for path, text in files.items()
        if path != "values.yaml"
        for body in yamlio.load_rendered(text)
    )


# A RayJob has its command quoted for two shells.
@pytest.mark.parametrize("target", [name for name in TARGETS if name != "rayjob"])
def test_a_script_is_a_block(target: str, repository: Repository) -> None:
    argv = json.dumps(["bash", "-c", SCRIPT.replace("$", "")])
    inject = "lattice: {inject: false}\n" if target == "trainingjob" else ""
    files = _rendered(repository, target, f"{inject}entrypoint: {{argv: {argv}}}\n{TWO_LINES}")
    manifest = next(
        text for name, text in files.items() if "echo" in text and name != "values.yaml"
    )
    lines = manifest.splitlines()
    assert not any(line.endswith("\\n") or line.isspace() for line in lines)
    assert any(line.endswith(("- |", ": |")) for line in lines)
    assert any(line.strip() == "echo 'a: b' # c" for line in lines)
    assert any(line.strip() == "echo 'a: b' # c" for line in files["values.yaml"].splitlines())
    program = normal_form(_manifests(files, target)).pods[0].program
    assert program.words == ("bash", "-c", SCRIPT)


@pytest.mark.parametrize("title", TEXTS)
def test_every_text_comes_back_as_it_is(title: str) -> None:
    text = TEXTS[title]
    values = {
        "image": {"repository": "x"}, "command": ["sh", "-c", text], "args": [text, "--a"],
        "env": {"T": text, "U": "u"},
        "files": {"/opt/main.sh": {"key": "main.sh", "content": text}},
    }  # fmt: skip
    ray = {"command": [], "args": [], "ray": {"entrypoint": text, "startParams": {"a": text}}}
    for target in TARGETS:
        given = {**values, **(ray if target == "rayjob" else {}), "target": target}
        files = engine().render(given, "release", "training")
        found = [_strings(list(yaml.safe_load_all(file))) for file in files.values()]
        shown = text.replace("$", "$$") if target == "compose" else text
        assert sum(strings.count(shown) for strings in found) == 4, target
    assert yaml.safe_load(yamlio.dump({"a": [text]}, blocks=True)) == {"a": [text]}


def _strings(data: object) -> list[str]:
    if isinstance(data, dict):
        return [s for value in data.values() for s in _strings(value)]
    if isinstance(data, list):
        return [s for value in data for s in _strings(value)]
    return [data] if isinstance(data, str) else []
