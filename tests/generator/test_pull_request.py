"""Comments on pull requests: found again, replaced, refused; the token goes nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import github_api
from github_api import BOT, TOKEN, Api
from trainwright.cli import main
from trainwright.gitops import comment
from trainwright.reports.comment import LIMIT

MARKER = "<!-- trainwright-plan -->"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    with github_api.serving() as running:
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        monkeypatch.setenv("GITHUB_API_URL", running.url)
        monkeypatch.setenv("GITHUB_REPOSITORY", "example/training")
        yield running


def post(body: str, *arguments: str) -> Result:
    command = ["gitops", "comment", "-", "--pull-request", "7", *arguments]
    return CliRunner().invoke(main, command, input=body)


def test_created_updated_unchanged(api: Api) -> None:
    message = [post(f"{MARKER}\n{text}\n").stdout.split()[0] for text in ("one", "two", "two")]
    assert message == ["created", "updated", "unchanged"]
    assert api.bodies(7) == [f"{MARKER}\ntwo\n"]


def test_a_page_is_linked_at_the_end(api: Api) -> None:
    post(f"{MARKER}\none\n", "--page-url", "https://example.com/artifacts/2")
    assert api.bodies(7) == [
        f"{MARKER}\none\n\n[The plan as a page](https://example.com/artifacts/2)\n"
    ]


@pytest.mark.parametrize("page", ["javascript:alert(1)", "https://example.com/) [x](y"])
def test_what_is_not_an_address_is_not_linked(api: Api, page: str) -> None:
    refused = post(f"{MARKER}\none\n", "--page-url", page)
    assert (refused.exit_code, api.bodies(7)) == (2, [])
    assert "must be an https:// or http:// address" in refused.output


def test_markers_tell_comments_apart(api: Api) -> None:
    for marker in (MARKER, "<!-- trainwright-plan prod -->", MARKER):
        post(f"{marker}\nText\n")
    assert len(api.bodies(7)) == 2


def test_line_ends_as_browsers_send_them_are_no_difference(api: Api) -> None:
    api.add(7, f"{MARKER}\r\none\r\n", BOT)
    assert post(f"{MARKER}\none\n").stdout.startswith("unchanged ")


def test_comments_of_others_and_of_deleted_users_are_left_alone(api: Api) -> None:
    api.add(7, f"{MARKER}\nforged", "somebody")
    api.add(7, f"{MARKER}\nof a user who is gone", BOT)["user"] = None
    api.add(7, "", "somebody")["body"] = None
    assert post(f"{MARKER}\none\n").stdout.startswith("created ")
    assert post(f"{MARKER}\ntwo\n", "--author", "somebody").stdout.startswith("updated ")
    assert api.bodies(7)[0] == f"{MARKER}\ntwo\n"


@pytest.mark.parametrize(
    "body", ["", "no marker", "<!-- open", "text <!-- x -->", "<!-- a -->" * 2]
)
def test_a_text_without_a_marker_is_refused(api: Api, body: str) -> None:
    done = post(body)
    assert done.exit_code == 2
    assert "must start with a line <!-- … -->" in done.stderr
    assert not api.requests


def test_a_text_that_github_would_not_take(api: Api) -> None:
    done = post(f"{MARKER}\n{'x' * LIMIT}")
    assert done.exit_code == 2
    assert "65,562 characters, and GitHub takes 65,536" in done.stderr
    assert not api.requests


@pytest.mark.parametrize(
    ("status", "message"),
    [(401, "is the token given"), (403, "`permissions: pull-requests: write`"), (500, "500")],
)
def test_refusals_have_githubs_words_and_a_hint(api: Api, status: int, message: str) -> None:
    api.refuse = status
    done = post(f"{MARKER}\none")
    assert done.exit_code == 2
    assert f"GitHub answers {status} Resource not accessible by integration" in done.stderr
    assert message in done.stderr
    assert TOKEN not in done.output


def test_the_token_does_not_follow_to_another_host(api: Api) -> None:
    with github_api.serving() as other:
        api.elsewhere = other.url
        assert post(f"{MARKER}\none").exit_code == 2
        assert other.requests
        assert set(other.seen) == {""}


def test_what_cannot_be_reached_or_is_no_api(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("[]")
    for address in ("http://127.0.0.1:1", file.as_uri(), "nowhere", "http://[", "http://a b"):
        done = post(f"{MARKER}\none", "--api", address)
        assert done.exit_code == 2, address
        assert done.stderr.count("\n") == 1, done.stderr
        assert TOKEN not in done.output


_OURS = {"id": 1, "body": f"{MARKER}\none", "user": {"login": BOT}, "html_url": "https://a/b"}


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"5",
        b"[5]",
        b"[[]]",
        b"[" * 100_000,
        *(
            json.dumps([{**_OURS, key: value}]).encode()
            for key, value in {"body": 5, "user": "x", "id": None, "html_url": 5}.items()
        ),
        json.dumps([{"body": None}]).encode(),
    ],
)
def test_an_answer_that_is_not_github_s_is_one_line(answer: bytes, api: Api) -> None:
    api.answer = 200, answer
    done = post(f"{MARKER}\ntwo")
    assert done.exit_code == 2, done.output
    assert "does not answer as the API of GitHub does" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_answer_without_an_end_fills_no_memory(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comment, "_LARGEST", 1000)
    monkeypatch.setattr(comment, "_PAGES", 3)
    api.answer = 200, json.dumps([{**_OURS, "body": "x" * 1000}]).encode()
    assert "is larger than 1,000 bytes" in post(f"{MARKER}\ntwo").stderr
    monkeypatch.setattr(comment, "_LARGEST", 100_000)
    api.requests.clear()
    api.answer = 200, json.dumps([{**_OURS, "body": ""}] * 100).encode()
    assert "has more than 300 comments" in post(f"{MARKER}\ntwo").stderr
    assert len(api.requests) == 3


@pytest.mark.parametrize("status", [200, 403])
def test_what_the_server_says_commands_no_terminal_and_no_runner(status: int, api: Api) -> None:
    said = "https://a\x1b[2J\u202e\n::error::x\rurl=https://b ##[add-mask]a"
    ours = [{**_OURS, "html_url": said}]
    api.answer = status, json.dumps(ours if status == 200 else {"message": said}).encode()
    done = post(f"{MARKER}\none")
    assert done.exit_code == (0 if status == 200 else 2)
    assert len(done.output.splitlines()) == 1
    assert not {"\x1b", "\u202e", "\r"} & {*done.output}
    assert "##[" not in done.output


def test_without_a_token_nothing_is_asked(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    done = post(f"{MARKER}\none")
    assert done.exit_code == 2
    assert "GITHUB_TOKEN is not set" in done.stderr
    assert not api.requests
