"""`comment`: a report or a plan as the one comment on a pull request."""

from __future__ import annotations

import re
from typing import IO

import click

from trainwright.cli.suggestions import Command

_ADDRESS = re.compile(r"https?://[^\s()<>\"']+")  # what Markdown takes between parentheses


@click.command(cls=Command)
@click.argument("file", type=click.File(encoding="utf-8"))
@click.option(
    "--pull-request",
    metavar="NUMBER",
    type=click.IntRange(min=1),
    required=True,
    help="The number of the pull request.",
)
@click.option(
    "--repository",
    metavar="OWNER/NAME",
    envvar="GITHUB_REPOSITORY",
    required=True,
    show_envvar=True,
    help="Where the pull request is.",
)
@click.option(
    "--api",
    metavar="URL",
    envvar="GITHUB_API_URL",
    default="https://api.github.com",
    show_default=True,
    show_envvar=True,
    help="The REST API.",
)
@click.option(
    "--author",
    metavar="LOGIN",
    default="github-actions[bot]",
    show_default=True,
    help="The user that the token belongs to, who posts the comment.",
)
@click.option(
    "--page-url",
    metavar="URL",
    help="The URL of the same plan as a page; the comment ends with a link to it.",
)
def comment(
    file: IO[str],
    *,
    pull_request: int,
    repository: str,
    api: str,
    author: str,
    page_url: str | None,
) -> None:
    """Post FILE (- for standard input) on a pull request, or update what was posted before.

    Its first line is a marker, as `plan -o markdown` writes it, by which the earlier comment is
    found. The token is read from GITHUB_TOKEN; it needs `pull-requests: write`.
    """
    import os

    from trainwright.gitops.comment import Access, CommentError
    from trainwright.gitops.comment import comment as post

    if page_url is not None and not _ADDRESS.fullmatch(page_url):
        raise click.BadParameter("must be an https:// or http:// address", param_hint="--page-url")
    token = os.environ.get("GITHUB_TOKEN", "")
    if not token:
        raise CommentError("GITHUB_TOKEN is not set")
    access = Access(api=api.rstrip("/"), repository=repository, token=token)
    link = f"\n[The plan as a page]({page_url})\n" if page_url else ""
    made = post(access, pull_request, file.read() + link, author)
    click.echo(f"{made.outcome} {made.url}")
