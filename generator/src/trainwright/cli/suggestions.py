"""Commands whose errors name what there is to choose from, what was meant, and all at once."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Words = click.Choice[str]
else:
    _Words = click.Choice  # generic from click 8.2 on


def meant(word: str, words: Iterable[str]) -> str:
    """A sentence with the nearest word, by its last part, or nothing."""
    from difflib import get_close_matches

    whole = {each.rpartition(" ")[2]: each for each in words}
    near = get_close_matches(word, whole, n=1)
    return f" Did you mean '{whole[near[0]]}'?" if near else ""


class Choice(_Words):
    """One of some words; click names all of them, and this the nearest."""

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> Any:
        try:
            return super().convert(value, param, context)
        except click.BadParameter as error:
            message = f"{error.message}{self.hint(str(value))}"
            raise click.BadParameter(message, context, param) from error

    def hint(self, value: str) -> str:
        return meant(value, map(str, self.choices))

    def get_missing_message(self, *_: object, **__: object) -> str:
        """Return the choices in one line; click has a line for each."""
        return f"Choose from {', '.join(map(str, self.choices))}"


class Format(Choice):
    """One of the formats of an output, which is printed; a name of a file is answered by how to
    write one.
    """

    def hint(self, value: str) -> str:
        redirect = f" to write a file, redirect what is printed: `> {shlex.quote(value)}`"
        return super().hint(value) + (redirect if {".", "/"} & {*value} else "")


class Command(click.Command):
    """A command that names every option that is missing or invalid; click names the first."""

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        given = list(words)
        try:
            return super().parse_args(context, words)
        except click.BadParameter:
            options, _, _ = self.make_parser(context).parse_args(args=given)
            messages = []
            for parameter in self.get_params(context):
                try:
                    parameter.handle_parse_result(context, options, [])
                except click.BadParameter as error:
                    messages.append(error.format_message())
            raise click.UsageError("\nError: ".join(messages), context) from None


# Options of other tools and verbs, the one that means the same, and what that does.
_SAME = {
    "--dry-run": ("--check", "writes nothing, and names what would be written"),
    "--base": ("--against", "names what to compare with"),
    "--json": ("-o json", "prints JSON"),
    "--format": ("-o", "chooses the format of what is printed"),
}
# Options by which other tools select what a command is about.
_SELECTING = frozenset({"--env", "-e", "--environment", "--job", "-f", "--file"})
_STOPPED = (
    "`suspend` ends the pods of a run until `resume`, `cancel` takes it out of git, and names the "
    "command that ends what no engine deletes; either is done once it is merged and synced"
)
_REMOVED = (
    "`cancel` takes a run out of git, `retire` one that has finished, both with the command that "
    "deletes what no engine does; a job goes with its file (`git rm`) and `render`"
)
# Verbs of other tools, and the commands that do what these do.
VERBS = {
    **dict.fromkeys(("stop", "kill", "terminate", "abort", "end", "halt"), _STOPPED),
    **dict.fromkeys(("delete", "remove", "rm", "del", "destroy", "uninstall"), _REMOVED),
    "pause": "`suspend` does it, until `resume`",
    "restart": "`rerun` begins another run of a job, `resume` goes on with a suspended one",
    "retry": "`rerun` begins another run of a job; `retries` in its spec are those of one run",
    "create": "a job is a file in `environments/ENV/jobs`; `import` makes it of what there is",
    "start": "`render` and a merge start a run, `resume` goes on with a suspended one",
    "run": "`render` and a merge start a run, `rehearse` starts it on this machine",
    **dict.fromkeys(
        ("apply", "submit", "deploy", "sync"),
        "`render`, `git push` and a merge do it: Argo CD or Flux applies what is merged",
    ),
    "diff": "`plan` names what a merge changes, and `render --check` what render would write",
    "describe": "`status` has the state of a run, `explain` the fields of a job",
    **dict.fromkeys(("get", "ls", "ps"), "`list jobs` has all jobs, `status` the state of a run"),
    "show": "`explain` has the fields of a job, `status` the state of a run",
    "rollback": "`git revert` and a merge bring back the run of an earlier commit, see `plan`",
    "lint": "`check` finds mistakes in job specs, `validate` in manifests",
    "template": "`render` writes the manifests",
}


def _instead(error: click.NoSuchOption) -> click.UsageError:
    """Return the error about an option with what means the same; click names the nearest spelling,
    which may do the reverse.
    """
    if error.ctx and _takes_more(error.ctx.command) and not _is_near(error):
        message = f"No such option '{error.option_name}': options of the program follow --"
        return click.UsageError(f"{message}, as in `-- {error.option_name} …`.", error.ctx)
    if error.option_name in _SELECTING and error.ctx and _selects(error.ctx.command):
        message = f"No such option '{error.option_name}': environments and jobs are arguments"
        example = f"as in `{error.ctx.command_path} prod` or `{error.ctx.command_path} prod/llm`"
        return click.UsageError(f"{message}, {example}.", error.ctx)
    option, effect = _SAME.get(error.option_name, ("", ""))
    command = error.ctx.command if error.ctx else None
    if command and _edits(command) and (field := _field(error.option_name)):
        message = f"No such option '{error.option_name}': write `{field}` into the job's spec"
        example = f"as in `{field}: …` in environments/prod/jobs/llm.yaml, and `trainwright render`"
        return click.UsageError(f"{message}, {example}.", error.ctx)
    if not command or not any(_takes(parameter, option) for parameter in command.params):
        return error
    assert error.ctx
    message = f"No such option '{error.option_name}': `{error.ctx.command_path} {option}` {effect}."
    return click.UsageError(message, error.ctx)


def _takes(parameter: click.Parameter, option: str) -> bool:
    """Whether a parameter is an option, with its value if one is in the text."""
    name, _, value = option.partition(" ")
    return name in parameter.opts and (not value or value in getattr(parameter.type, "choices", ()))


def _edits(command: click.Command) -> bool:
    """Whether a command edits the specs of jobs."""
    return any("--commit" in parameter.opts for parameter in command.params)


def _field(option: str) -> str:
    """Return the field of a job that has the name of an option; empty without one."""
    from trainwright.reports import field_text  # 20 ms, for a mistake alone

    first, *words = option.lstrip("-").split("-")
    name = first + "".join(word.capitalize() for word in words)
    return name if name and field_text.has("job", name) else ""


def _selects(command: click.Command) -> bool:
    return any((p.metavar or "").startswith(("[ENV", "ENV")) for p in command.params)


def _takes_more(command: click.Command) -> bool:
    """Whether a command passes what follows -- to a program."""
    return any((p.metavar or "").startswith("[-- ") for p in command.params)


def _is_near(error: click.NoSuchOption) -> bool:
    """Whether an option is a slip of one that there is."""
    from difflib import get_close_matches

    names = [name.lstrip("-") for name in error.possibilities or ()]
    return bool(get_close_matches(error.option_name.lstrip("-"), names, n=1, cutoff=0.75))


class Group(click.Group):
    """Commands of which the nearest is named, those of groups below it included."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except click.NoSuchOption as error:
            raise _instead(error) from None

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(context, words[0]) is None and not words[0].startswith("-"):
            if words[0] in VERBS and context.parent is None:
                context.fail(f"No such command '{words[0]}': {VERBS[words[0]]}.")
            suggestion = meant(words[0], self._paths(context))
            context.fail(f"No such command '{words[0]}'.{suggestion}")
        return super().resolve_command(context, words)

    def sections(self, context: click.Context) -> Mapping[str, Iterable[str]]:
        """The names of the commands, by the title above them in --help."""
        return {"Commands": self.list_commands(context)}

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the first sentence of each command, whole at every width; click cuts it."""
        for title, names in self.sections(context).items():
            commands = {name: self.get_command(context, name) for name in names}
            rows = [(name, _sentence(command)) for name, command in commands.items() if command]
            with formatter.section(title):
                formatter.write_dl(rows)

    def _paths(self, context: click.Context) -> Iterator[str]:
        """Yield what is typed for each command: "wire" of a group as "gitops wire"."""
        names = self.list_commands(context)
        for name in names:
            group = self.get_command(context, name)
            inner = group.list_commands(context) if isinstance(group, click.Group) else ()
            yield from (f"{name} {each}" for each in inner)
        yield from names  # which win where a command of a group has the same name


def _sentence(command: click.Command) -> str:
    first = " ".join((command.help or "").partition("\n\n")[0].split())
    return f"{first.partition('. ')[0].rstrip('.')}."
