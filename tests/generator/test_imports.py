"""What the everyday verbs do not import: most of the time of a short command is its imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

from repository import Repository

_MODULES = """
import sys
from trainwright.__main__ import main
try:
    main()
finally:
    print("\\n".join(["modules:", *sys.modules]))
"""
# What finds things out: none of it is needed to say again what was found out before.
_FINDS_OUT = (
    "trainwright.findings",
    "trainwright.helm",
    "trainwright.kinds",
    "trainwright.lifecycle",
    "trainwright.datatypes.job",
    "trainwright.objects",
    "trainwright.render",
    "trainwright.reports",
    "trainwright.rules",
    "trainwright.runs",
    "trainwright.specs.load",
)
_LIBRARIES = (
    "helm_python",
    "jsonschema",
    "jsonschema_rs",
    "multiprocessing",
    "rich",
    "socket",
    "subprocess",
    "yaml",
)


def _imported(*arguments: str) -> set[str]:
    """Every module and package that a verb imports, in a process of its own."""
    command = [sys.executable, "-c", _MODULES, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    modules = done.stdout.partition("modules:\n")[2].split("\n")
    assert "trainwright.cli" in modules
    return {".".join(m.split(".")[:n]) for m in modules for n in range(1, m.count(".") + 2)}


def test_help_imports_what_parses_command_lines_alone() -> None:
    assert _imported("--help").isdisjoint((*_FINDS_OUT, *_LIBRARIES, "trainwright.specs"))


@pytest.mark.parametrize(
    "verb", [("check",), ("check", "prod/llm", "-o", "json"), ("list", "jobs")]
)
def test_a_verb_that_says_what_it_said_before_imports_nothing_to_find_it_out(
    verb: tuple[str, ...], repository: Repository
) -> None:
    root = ("-C", str(repository.root))
    assert repository.run("render").exit_code == 0
    first = repository.run(*verb)
    assert first.exit_code == 0
    assert _imported(*root, *verb).isdisjoint((*_FINDS_OUT, *_LIBRARIES))
    assert repository.run(*verb).output == first.output


def test_a_check_without_findings_imports_no_other_kind_and_nothing_that_words_them(
    repository: Repository,
) -> None:
    assert repository.run("render").exit_code == 0
    modules = _imported("-C", str(repository.root), "check", "prod/llm", "--no-cache")
    targets = {module for module in modules if module.endswith(".target")}
    assert targets == {"trainwright.kinds.target", "trainwright.kinds.pytorchjob.target"}
    assert modules.isdisjoint(
        {
            "trainwright.findings.redaction",
            "trainwright.render.patched",
            "trainwright.documents.validation.schema_errors",
        }
    )
