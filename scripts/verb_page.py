"""Write docs/verbs.md: every command with its arguments and options, from the command line itself.

python scripts/verb_page.py [--check]
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from generated import ROOT, main

from trainwright.cli import main as trainwright

PAGE = ROOT / "docs" / "verbs.md"
COMMAND = "python scripts/verb_page.py"
_HEAD = f"""\
<!-- Generated from the command line by `{COMMAND}`. Do not edit. -->
# Commands

For anyone who has a terminal open: every command of `trainwright` with its arguments and options, as `--help` has them. What a command is for, with examples, is on the page of its task.

Each option can be set by an environment variable instead: `TRAINWRIGHT`, the command and the option, in capitals and with underscores, such as `TRAINWRIGHT_PLAN_AGAINST=main`. An option that is given wins. The other variables are [on a page of their own](variables.md).
"""  # noqa: E501 - a paragraph is a line, as on the other pages


def page() -> str:
    """The whole text."""
    root = click.Context(trainwright, info_name="trainwright")
    lines = [_HEAD, *_section("## Options of every command", trainwright, root)]
    for path, command, context in _commands(trainwright, root):
        lines += _section(f"{'#' * len(path.split())} {path}", command, context)
    return "\n".join(lines).rstrip() + "\n"


def _commands(
    group: click.Group, above: click.Context
) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(above):
        command = group.get_command(above, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=above)
        yield context.command_path, command, context
        if isinstance(command, click.Group):
            yield from _commands(command, context)


def _section(title: str, command: click.Command, context: click.Context) -> Iterator[str]:
    yield from (title, "")
    if not isinstance(command, click.Group) or context.parent is None:
        words = [context.command_path, *command.collect_usage_pieces(context)]
        yield from ("```text", " ".join(words), "```", "")
    yield from (_prose(command.help or ""), "")
    if command.epilog:
        lines = (line.strip() for line in command.epilog.splitlines()[2:])
        yield from ("```text", *lines, "```", "")
    options = [
        param for param in command.params if isinstance(param, click.Option) and not param.hidden
    ]
    if options:
        yield from ("| option | default | what it does |", "|---|---|---|")
        yield from (_row(option, context) for option in options)
        yield ""


def _prose(text: str) -> str:
    """Paragraphs of a help text, each on a line."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(_escaped(" ".join(part.split())) for part in paragraphs)


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is: what looks like a tag or an emphasis is not one."""
    for character in "\\<*_":
        text = text.replace(character, f"\\{character}")
    return text


def _row(option: click.Option, context: click.Context) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    metavar = "" if option.is_flag else f" {option.make_metavar(context).removesuffix(' RANGE')}"
    shown = f"`{names}{metavar}`".replace("|", "\\|")
    remarks = [_escaped(option.help or "").replace("|", "\\|")]
    remarks += ["Required."] if option.required else []
    remarks += ["May be given several times."] if _is_repeated(option) else []
    remarks += [f"Also from `{option.envvar}`."] if option.envvar else []
    return f"| {shown} | {_default(option)} | {' '.join(filter(None, remarks))} |"


def _is_repeated(option: click.Option) -> bool:
    return option.multiple and "several" not in (option.help or "")


def _default(option: click.Option) -> str:
    """A default as it is written; none where it is a flag's, or there is none."""
    default = option.to_info_dict()["default"]
    if option.is_flag or not default or callable(default):
        return ""
    values = default if isinstance(default, tuple | list) else [default]
    return f"`{', '.join(map(str, values))}`"


if __name__ == "__main__":
    main(__doc__, PAGE, page(), COMMAND)
