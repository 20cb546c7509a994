"""In a folder, what Helm or kustomize make manifests of is counted, not taken for manifests."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Finding, Severity
from trainwright.importing import ImportInput
from trainwright.manifests import run
from trainwright.manifests.run import ManifestOptions

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"
PATCH = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
OPERATIONS = "- op: remove\n  path: /spec/replicas\n"
TEMPLATE = "{{- if .Values.on }}\nkind: Job\n{{- end }}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def check(*paths: str) -> list[Finding]:
    return list(run.check(paths, ManifestOptions(today="2026-06-01")).findings)


def errors(*paths: str) -> list[str]:
    """The files with errors."""
    return sorted({f.place.file for f in check(*paths) if f.severity is Severity.ERROR})


def test_a_helm_chart_is_one_note(here: Path) -> None:
    write(
        here,
        {
            "charts/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            "charts/web/values.yaml": "on: true\n",
            "charts/web/values-prod.yaml": "on: false\n",
            "charts/web/templates/job.yaml": TEMPLATE,
            "charts/web/templates/deep/er.yaml": TEMPLATE,
            "charts/web/charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
            "charts/web/charts/sub/templates/a.yaml": TEMPLATE,
            "charts/web/crds/a.yaml": CONFIG.replace("NAME", "Wrong"),
            "charts/web/examples/b.yaml": CONFIG.replace("NAME", "Wrong"),
            "templates/c.yaml": CONFIG.replace("NAME", "Wrong"),
        },
    )
    (note,) = (finding for finding in check(".") if finding.severity is Severity.NOTE)
    assert note.place.file == "charts/web/Chart.yaml"
    assert "7 files of the Helm chart `charts/web`" in note.message
    assert "`helm template charts/web | trainwright validate -`" in note.remedy
    assert errors(".") == [
        "charts/web/crds/a.yaml",
        "charts/web/examples/b.yaml",
        "templates/c.yaml",
    ]


def test_templates_in_a_folder_called_crds_are_templates(here: Path) -> None:
    write(
        here,
        {
            "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            "web/templates/crds/a.yaml": TEMPLATE,
            "web/charts/sub/templates/crds/a.yaml": TEMPLATE,
            "web/charts/sub/crds/a.yaml": CONFIG.replace("NAME", "Wrong"),
        },
    )
    (note,) = (finding for finding in check("web") if finding.severity is Severity.NOTE)
    assert "3 files of the Helm chart `web`" in note.message
    assert errors("web") == ["web/charts/sub/crds/a.yaml"]


def test_the_chart_of_templates_alone_is_above_them(here: Path) -> None:
    write(here, {"web/templates/server/deep/job.yaml": TEMPLATE})
    with pytest.raises(SourceError, match=r"`helm template web \| trainwright validate -`"):
        check("web/templates")


def test_a_chart_may_lie_in_the_folder_of_another(here: Path) -> None:
    write(
        here,
        {
            "Chart.yaml": "apiVersion: v2\nname: all\nversion: 1.0.0\n",
            "deploy/web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            "deploy/web/templates/a.yaml": CONFIG.replace("NAME", "'{{ .Release.Name }}'"),
            "deploy/config.yaml": CONFIG.replace("NAME", "right"),
        },
    )
    notes = {finding.place.file for finding in check(".")}
    assert notes == {"Chart.yaml", "deploy/web/Chart.yaml"}
    assert errors(".") == []


def test_a_template_that_is_named_is_checked(here: Path) -> None:
    write(here, {"web/Chart.yaml": "name: web\n", "web/templates/job.yaml": TEMPLATE})
    assert errors("web/templates/job.yaml") == ["web/templates/job.yaml"]


@pytest.mark.parametrize("name", ["kustomization.yaml", "kustomization.yml", "Kustomization"])
def test_what_a_kustomization_merges_is_one_note(here: Path, name: str) -> None:
    write(
        here,
        {
            f"over lay/{name}": (
                "resources: [../base/config.yaml, both.yaml]\n"
                "patches: [{path: a.yaml}, {path: both.yaml}, {patch: '- op: remove'}, 7]\n"
                "patchesStrategicMerge: [b.yaml, 'kind: A\nmetadata: {}']\n"
                "patchesJson6902: [{path: ./c.yaml}]\n"
                "configurations: [d.yaml]\ntransformers: [../shared/e.yaml]\n"
                "replacements: [{path: f.yaml}]\n"
                "configMapGenerator: [{name: a, files: [key=g.yaml, h.yaml, none.yaml]}]\n"
                "helmCharts: [{valuesFile: i.yaml, additionalValuesFiles: [j.yaml]}]\n"
            ),
            "base/config.yaml": CONFIG.replace("NAME", "Wrong"),
            **{f"over lay/{letter}.yaml": PATCH for letter in "abdfghij"},
            "over lay/c.yaml": OPERATIONS,
            "over lay/both.yaml": CONFIG.replace("NAME", "Wrong-too"),
            "shared/e.yaml": "kind: PrefixTransformer\n",
        },
    )
    findings = {f.place.file: f for f in check(".") if f.severity is Severity.NOTE}
    message = findings.pop(f"over lay/{name}").message
    assert "10 files of the kustomization `over lay`" in message
    assert set(findings) <= {f"over lay/{name}"}
    assert errors(".") == ["base/config.yaml", "over lay/both.yaml"]


def test_the_configuration_of_a_program_is_not_an_object(here: Path) -> None:
    """It has a kind, but no metadata: no API server reads it."""
    write(
        here,
        {
            "kind.yaml": "apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\nnodes: []\n",
            "prefix.yaml": "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: a}\n",
            "object.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetadata: {}\n",
            "typo.yaml": "apiVersion: v1\nkind: Servise\nspec: {}\n",
            "misspelt.yaml": "apiVersion: example.com/v1\nkind: Thing\nmetdata: {name: a}\n",
        },
    )
    assert errors(".") == ["misspelt.yaml", "object.yaml", "typo.yaml"]


def test_variables_of_flux_have_defaults(here: Path) -> None:
    """https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution"""
    labels = 'labels: {a: "${A:-one two}", b: "${B:=x}", c: "${C}"}'
    write(here, {"a.yaml": CONFIG.replace("name: NAME", f"name: a, {labels}")})
    assert check("a.yaml") == []


def test_import_names_charts_and_kustomizations(here: Path) -> None:
    write(
        here,
        {
            "web/Chart.yaml": "name: web\n",
            "web/templates/job.yaml": TEMPLATE,
            "over/kustomization.yaml": "patches: [{path: a.yaml}]\n",
            "over/a.yaml": OPERATIONS,
        },
    )
    given = ImportInput()
    given.files((".",))
    assert given.problems == []
    assert given.findings == []
    assert {left.field for left in given.beside} >= {"Helm chart `web`", "kustomization `over`"}


def test_nothing_but_a_chart_is_not_a_check_that_passed(here: Path) -> None:
    write(here, {"web/Chart.yaml": "name: web\n", "web/templates/job.yaml": TEMPLATE})
    with pytest.raises(
        SourceError, match=r"the Helm chart `web` has no manifest .*`helm template web"
    ):
        check("web")


def test_definitions_among_the_templates_of_a_chart_are_read(here: Path) -> None:
    definition = (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        "metadata: {name: foos.example.com}\n"
        "spec:\n  group: example.com\n  scope: Namespaced\n"
        "  names: {kind: Foo, plural: foos}\n"
        "  versions:\n  - name: v1\n    served: true\n    storage: true\n"
        "    schema: {openAPIV3Schema: {type: object, properties: {m: {type: integer}}}}\n"
    )
    write(
        here,
        {
            "defs/web/Chart.yaml": "name: web\n",
            "defs/web/templates/crd.yaml": definition,
            "defs/web/templates/job.yaml": TEMPLATE,
            "foo.yaml": "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\nm: text\n",
        },
    )
    options = ManifestOptions(today="2026-06-01", crds=here / "defs")
    (finding,) = run.check(("foo.yaml",), options).findings
    assert finding.rule == "TW011"
    assert finding.message == 'm must be an integer, found a string: "text"'
