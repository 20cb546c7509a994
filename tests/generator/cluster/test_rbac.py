"""The roles that are printed allow what the verbs ask for, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cel
import kubernetes_validate
import yaml
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, manifest, pod
from repository import Repository
from trainwright.files.tree import Folder
from trainwright.gitops.wiring import kinds as applied_kinds
from trainwright.kinds import OTHERS, SERVED
from trainwright.specs import resolve
from trainwright.specs.load import Reader

Run = Callable[..., Result]
Grant = tuple[str, str, str]


def role(repository: Repository, name: str) -> tuple[set[Grant], list[dict[str, Any]]]:
    printed = repository.run("status", "--print-rbac", name)
    assert printed.exit_code == 0, printed.output
    first, *others = yaml.safe_load_all(printed.stdout)
    granted = {
        (group, resource, verb)
        for rule in first["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    return granted, others


def test_the_role_is_exactly_what_is_asked_for(
    repository: Repository, run: Run, api: ApiServer
) -> None:
    repository.environment("prod", "queueing: kueue\nqueues: {team: {}}\n")
    repository.job("prod/llm", "queue: team\npodLabels: {another: run}\n")
    repository.run("render", "prod")
    body = manifest(repository, "prod/llm")
    api.put({**body, "status": conditions("Created")})
    for verb in (
        ("status", "prod"),
        ("status", "prod/llm", "--for", "succeeded", "--timeout", "1s"),
    ):
        run(*verb)
    name = f"{body['metadata']['name']}-master-0"
    api.put(pod(body, name, **RUNNING))
    api.logs[name] = []
    assert run("logs", "prod/llm").exit_code == 0
    api.put({**body, "status": conditions("Created", "Succeeded")})
    assert run("logs", "prod/llm", "-f").exit_code == 0
    asked = {(r.group, r.resource, r.verb) for r in api.requests}
    # The other kinds are asked for in the same way as the one that was here.
    others = {
        (kind.group, kind.plural, verb)
        for kind in (*SERVED.values(), *OTHERS.values())
        for group, resource, verb in asked
        if (group, resource) == ("kubeflow.org", "pytorchjobs")
    }
    assert role(repository, "read")[0] == asked | others
    assert {verb for _, _, verb in asked} == {"get", "list", "watch"}


def test_dry_runs_are_allowed_for_everything_that_is_rendered(
    repository: Repository, run: Run, api: ApiServer
) -> None:
    granted, _ = role(repository, "dry-run")
    targets = 'targets: {pytorchjob: {version: "1.9"}, trainingjob: {version: "0.3"}, trainjob: {version: "2.3"}, jobset: {version: "0.12"}, job: {}, rayjob: {version: "1.7"}}'
    resources = set()
    for scheduler in ("volcano", "coscheduling"):
        path = repository.environment("prod", f"queueing: {scheduler}\n")
        text = path.read_text()
        start = text.index("targets:")
        path.write_text(f"{text[:start]}{targets}\n{text[text.index(chr(10), start) + 1 :]}")
        document = Reader(Folder(repository.root)).environment("prod").document
        assert document is not None
        for group, kind in applied_kinds.rendered(resolve.environment("prod", document)):
            (plural,) = {
                p for (gv, k), p in api.kinds.items() if (gv.rpartition("/")[0], k) == (group, kind)
            }
            resources.add((group, plural))
    wanted = {
        (group, plural, verb) for group, plural in resources for verb in ("get", "patch", "create")
    }
    assert granted == wanted


def test_a_dry_run_asks_for_no_more(run: Run, repository: Repository, api: ApiServer) -> None:
    run("status", "--diff", "prod")
    asked = {(r.group, r.resource, r.verb) for r in api.requests}
    assert asked <= role(repository, "dry-run")[0]
    assert asked


def test_the_policy_lets_members_patch_as_a_dry_run_only(repository: Repository) -> None:
    _, (policy, binding) = role(repository, "dry-run")
    for body in (policy, binding):
        kubernetes_validate.validate(body, "1.34.0", strict=True)
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    (condition,) = policy["spec"]["matchConditions"]
    (rule,) = policy["spec"]["validations"]

    def evaluate(expression: str, request: dict[str, Any]) -> bool:
        return bool(cel.evaluate(expression, {"request": request}))

    ci = {"userInfo": {"groups": ["trainwright:dry-run", "system:authenticated"]}}
    assert evaluate(condition["expression"], ci)
    assert not evaluate(condition["expression"], {"userInfo": {"groups": ["system:masters"]}})
    assert evaluate(rule["expression"], {"dryRun": True})
    assert not evaluate(rule["expression"], {"dryRun": False})
    assert not evaluate(rule["expression"], {})
