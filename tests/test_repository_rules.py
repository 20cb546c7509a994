"""What the repository promises about itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from trainwright.cli.common import FORMATS as OFFERED
from trainwright.cli.explain import LISTS
from trainwright.findings import diagnostics
from trainwright.findings.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.kinds import TARGETS
from trainwright.reports import FORMATS
from trainwright.rules.registry import RULES

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "generator/src/trainwright"


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_the_shipped_environments_are_rendered_and_clean() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trainwright", "render", "--check", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr


# A reference token that is escaped by hand, and a key that is put behind a pointer unescaped.
_BY_HAND = re.compile(r"""["'/\w]~[01]["'/*\w]|\{[\w.]*pointer\}/\{""")


def test_pointers_are_put_together_in_one_module() -> None:
    """A key with a slash or a dot is another position where text is put together by hand."""
    found = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "datatypes/pointer.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _BY_HAND.search(line)
    ]
    assert found == []


def test_every_target_has_golden_cases() -> None:
    cases = {path.name.split("-")[0] for path in (ROOT / "tests/golden").iterdir()}
    assert set(TARGETS) <= cases


def test_choices_of_the_command_line_are_those_of_the_registries() -> None:
    from trainwright.lifecycle.listing import LISTINGS

    assert tuple(FORMATS) == OFFERED
    assert set(LISTS) == set(LISTINGS)
    assert all(key == target.name for key, target in TARGETS.items())


def test_every_diagnostic_says_what_holds_and_what_to_do() -> None:
    assert list(DIAGNOSTICS) == sorted(DIAGNOSTICS)
    defined = [one for one in vars(diagnostics).values() if isinstance(one, Diagnostic)]
    assert sorted(one.id for one in defined) == list(DIAGNOSTICS)
    assert not set(DIAGNOSTICS) & set(RULES)
    for diagnostic in DIAGNOSTICS.values():
        assert re.fullmatch(r"TW0\d\d", diagnostic.id)
        assert diagnostic.summary.endswith(".")
        assert diagnostic.remedy[-1] in ".?"


def test_the_generated_documentation_of_rules_is_fresh() -> None:
    subprocess.run([sys.executable, ROOT / "scripts/rule_pages.py", "--check"], check=True)


def test_the_tree_names_what_is_there() -> None:
    block = (ROOT / "CONTRIBUTING.md").read_text().split("```text\n")[1].split("```")[0]
    stack: list[str] = []
    named = set()
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        stack = [*stack[:depth], line.split()[0].rstrip("/")]
        assert (ROOT / "/".join(stack)).exists(), line
        named.add(stack[0])
    top = {path.relative_to(ROOT).parts[0] for path in _tracked()}
    assert {name for name in top if not name.startswith(".")} <= named


def test_relative_links_in_the_documentation_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/README.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name}: {link}"


def test_yaml_language_server_lines_and_ids_agree() -> None:
    for path in (ROOT / "schemas").rglob("*.json"):
        schema = json.loads(path.read_text())
        relative = path.relative_to(ROOT / "schemas").as_posix()
        assert schema["$id"] == f"https://trainwright.io/schemas/v1alpha1/{relative}"


def test_what_needs_a_cluster_is_never_collected() -> None:
    """`make e2e` starts it; pytest would find modules of tests and fixtures by their names."""
    names = {path.name for path in (ROOT / "tests/e2e").glob("*.py")}
    assert "__main__.py" in names
    assert not [name for name in names if name.startswith(("test_", "conftest"))]
    others = [path for path in _tracked() if path.suffix == ".py" and path.parent.name != "e2e"]
    imports = re.compile(r"^\s*(?:from|import) e2e\b", re.MULTILINE)
    assert not [path for path in others if imports.search(path.read_text(encoding="utf-8"))]
