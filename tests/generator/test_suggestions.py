"""A word that is none of those that there are: the nearest is named."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from repository import Repository
from trainwright.cli import main, suggestions


@pytest.mark.parametrize(
    ("command", "nearest"),
    [
        (("rendr",), "render"),
        (("chek", "prod"), "check"),
        (("supend", "prod/llm"), "suspend"),
        (("admin", "chart", "pakage"), "package"),
        (("admin", "crds", "pul"), "pull"),
        (("render", "--chek"), "--check"),
        (("--colr", "always", "check"), "--color"),
        (("check", "-o", "txt"), "text"),
        (("list", "job"), "jobs"),
        (("init", "x", "--engine", "argo", "--target", "job"), "argocd"),
        (("init", "x", "--engine", "none", "--target", "trainjobs"), "trainjob"),
        (("status", "prod/llm", "--for", "runing"), "running"),
        (("admin", "completion", "bsh"), "bash"),
        (("wire", "prod"), "gitops wire"),
        (("complation", "bash"), "admin completion"),
        (("admin", "schema", "enviroment"), "environment"),
    ],
)
def test_the_nearest_is_named(command: tuple[str, ...], nearest: str) -> None:
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 2
    assert "id you mean" in done.stderr
    assert f"'{nearest}'" in done.stderr.partition("id you mean")[2]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("render", "--env", "prod"), "`trainwright render prod`"),
        (("stop", "prod/llm"), "`suspend`"),
        (
            ("stop", "prod/llm"),
            "names the command that ends what no engine deletes",
        ),
        (("kill", "prod/llm"), "`cancel`"),
        (("remove", "prod/llm"), "a job goes with its file (`git rm`) and `render`"),
        (("restart", "prod/llm"), "`rerun`"),
        (("start", "prod/llm"), "`resume`"),
        (("apply", "prod"), "`git push`"),
        (("submit", "prod/llm"), "`render`"),
        (("delete", "prod/llm"), "`cancel`"),
        (("diff", "prod"), "`plan`"),
        (("describe", "prod/llm"), "`status`"),
        (("plan", "--base", "main"), "`trainwright plan --against`"),
        (("check", "--json"), "`trainwright check -o json` prints JSON"),
        (("check", "--format", "json"), "`trainwright check -o` chooses the format"),
        (("set", "prod/llm", "--nodes", "3"), "write `nodes` into the job's spec"),
        (("set", "prod/llm", "--grace-period", "3m"), "write `gracePeriod` into the job's spec"),
        (("rehearse", "prod/llm", "--epochs", "2"), "options of the program follow --"),
    ],
)
def test_words_of_other_tools_are_answered(command: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(main, command, prog_name="trainwright")
    assert done.exit_code == 2
    assert told in done.stderr
    assert "id you mean" not in done.stderr


def test_a_slip_of_an_option_is_none_of_the_program() -> None:
    done = CliRunner().invoke(main, ["rehearse", "prod/llm", "--nods", "2"])
    assert "--nodes" in done.stderr
    assert "follow --" not in done.stderr


def test_commands_that_are_told_exist() -> None:
    told = {name for line in suggestions.VERBS.values() for name in re.findall("`([a-z]+)", line)}
    assert told - {"git", "environments", "retries"} <= {*main.list_commands(click.Context(main))}
    assert not {*suggestions.VERBS} & {*main.list_commands(click.Context(main))}


def test_manifests_have_a_verb_of_their_own(repository: Repository) -> None:
    done = repository.run("check", "deploy/job.yaml")
    assert done.exit_code == 2
    assert "`trainwright validate deploy/job.yaml`" in done.stderr


def test_the_command_of_a_report_can_be_pasted(repository: Repository) -> None:
    (repository.root / "deploy of today.yaml").write_text("kind: ConfigMap\napiVersion: v1\n")
    command = ("validate", "deploy of today.yaml", "--kubernetes-version", "1.34")
    report = json.loads(repository.run(*command, "-o", "json").stdout)["report"]
    assert shlex.split(report["command"]) == ["trainwright", *command]


def test_nothing_is_invented() -> None:
    done = CliRunner().invoke(main, ["xyzzy"])
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: No such command 'xyzzy'.\n")


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner)


def test_every_choice_and_group_does() -> None:
    commands = list(_commands(main))
    assert len(commands) > 30
    for command in commands:
        plain = [p.name for p in command.params if type(p.type) is click.Choice]
        assert not plain, command.name
        assert type(command) is not click.Group, command.name


@pytest.mark.parametrize("width", [40, 80, 120])
def test_help_has_a_whole_sentence_for_each_of_few_verbs(width: int) -> None:
    assert len(main.list_commands(click.Context(main))) <= 25
    for command in _commands(main):
        if isinstance(command, click.Group):
            shown = command.get_help(click.Context(command, terminal_width=width))
            assert "..." not in shown.partition("Commands:")[2]
    words = " ".join(CliRunner().invoke(main, ["--help"], terminal_width=width).stdout.split())
    assert "Record finished runs in ledger.yaml, and take their manifests out of git." in words


def test_a_dry_run_is_answered_by_what_writes_nothing() -> None:
    """And not by the nearest spelling, --new-runs, which begins runs."""
    done = CliRunner().invoke(main, ["render", "--dry-run"])
    assert done.exit_code == 2
    assert "No such option '--dry-run': `" in done.stderr
    assert "render --check` writes nothing, and names what would be written." in done.stderr
    assert "--new-runs" not in done.stderr
    done = CliRunner().invoke(main, ["gitops", "wire", "--dry-run"])
    assert "gitops wire --check` writes nothing" in done.stderr
    # A near miss: nothing of it writes, and there is no other name for that.
    done = CliRunner().invoke(main, ["check", "--dry-run"])
    assert "No such option '--dry-run'." in done.stderr


def test_a_file_is_no_format(repository: Repository) -> None:
    for verb in ("report", "plan", "check"):
        done = repository.run(verb, "-o", "the page.html")
        assert done.exit_code == 2
        assert "redirect what is printed: `> 'the page.html'`" in done.stderr
    done = repository.run("report", "-o", "json")
    assert done.exit_code == 2
    assert "'json' is not 'html'" in done.stderr
    assert repository.run("report", "-o", "html").stdout.startswith("<!doctype html>")
