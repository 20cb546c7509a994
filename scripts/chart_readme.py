"""Write chart/README.md from Chart.yaml and the `# --` comments of values.yaml.

python scripts/chart_readme.py [--check]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parents[1] / "chart"
COMMAND = "python scripts/chart_readme.py"
_KEY = re.compile(r"^(\s*)([A-Za-z]+):")
_COMMENT = re.compile(r"^\s*# -- (.*)$")
_SECTION = re.compile(r"^# @section -- (.*)$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="fail when the file is out of date")
    check = parser.parse_args().check
    wanted, path = readme(), CHART / "README.md"
    if not check:
        path.write_text(wanted, encoding="utf-8")
    elif not path.exists() or path.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{path.name} of the chart is out of date: run {COMMAND}")


def documented(text: str) -> list[tuple[str, str, str]]:
    """(section, dotted key, description) of every commented key, in the order of the file."""
    rows = []
    section, comment, parents = "Values", "", list[str]()
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section = match.group(1)
        elif match := _COMMENT.match(line):
            comment = match.group(1)
        elif match := _KEY.match(line):
            parents = [*parents[: len(match.group(1)) // 2], match.group(2)]
            if comment:
                rows.append((section, ".".join(parents), comment))
            comment = ""
    return rows


def readme() -> str:
    """The whole text of README.md."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    lines = [
        f"<!-- Generated from Chart.yaml and values.yaml by `{COMMAND}`. Do not edit. -->",
        f"# {chart['name']}",
        "",
        f"![Version: {chart['version']}](https://img.shields.io/badge/Version-{chart['version']}-blue)",
        "",
        chart["description"],
        "",
        "One release is one run. `trainwright render` writes these values; by hand:",
        "",
        "```console",
        "helm install mnist ./chart --namespace training \\",
        "  --set image.repository=registry.example.com/ml/mnist --set image.tag=1.4.0 \\",
        "  --set 'command={python,train.py}' --set replicas.worker=1",
        "```",
        "",
        "With `target: trainjob` add `--set trainer.installHook=true`, or name a runtime of the",
        "cluster (`trainer.runtime`): plain `helm install` makes a TrainJob before its",
        "TrainingRuntime otherwise, and Kubeflow Trainer refuses it. Argo CD, and Flux with",
        "rendered files, need neither.",
        "",
        "An upgrade does not reach pods that run: install a new release for a new run.",
        "Wrong values are refused by `values.schema.json`.",
        "",
        f"Kubernetes: `{chart['kubeVersion']}`",
    ]
    section = None
    for name, key, description in documented(text):
        if name != section:
            lines += ["", f"## {name}", "", "| Key | Default | Description |", "|---|---|---|"]
            section = name
        lines.append(
            f"| `{key}` | `{_default(values, key)}` | {description.replace('|', '&#124;')} |"
        )
    return "\n".join(lines) + "\n"


def _default(values: object, key: str) -> str:
    for part in key.split("."):
        values = values[part] if isinstance(values, dict) else None
    text = yaml.safe_dump(values, default_flow_style=True, width=10_000)  # a table row is one line
    return text.strip().removesuffix("...").strip()


if __name__ == "__main__":
    main()
