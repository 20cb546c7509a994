"""What people read is what is there, in every output and of every text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import git_repository
from repository import Copied, Repository
from trainwright.cli.common import FORMATS
from trainwright.cli.plan import FORMATS as PLAN_FORMATS
from trainwright.findings.visibility import hidden, visible

# What no terminal, log, page or comment may be given as it is.
UNSEEN = {
    "right-to-left override": "\u202e",
    "isolate": "\u2066",
    "zero-width space": "\u200b",
    "word joiner": "\u2060",
    "soft hyphen": "\xad",
    "Hangul filler": "\u3164",
    "grapheme joiner": "\u034f",
    "invisible operator": "\u206a",
    "tag": "\U000e0041",
    "variation selector": "\U000e0100",
    "line separator": "\u2028",
    "escape sequence": "\x1b[2J",
    "C1 control": "\x9b",
    "bell": "\x07",
}
LOOK_ALIKES = {
    "Cyrillic a": "p\u0430ypal",
    "Greek o": "t\u03bfrch",
    "Cyrillic capital": "GPU\u0415",
}
FINE = ("Gr\u00fc\u00dfe", "\u041f\u0440\u0438\u0432\u0435\u0442", "\u03b1\u03b2\u03b3", "\u65e5\u672c\u8a9e", "\u03bcs", "a\nb\r\nc\td", "\U0001f469\u200d\U0001f4bb")  # fmt: skip


@pytest.mark.parametrize("unseen", UNSEEN.values(), ids=UNSEEN)
def test_what_is_not_seen_is_found_and_spelled_out(unseen: str) -> None:
    assert hidden(f"a{unseen}b") == unseen[0]
    assert unseen[0] not in visible(f"a{unseen}b")


@pytest.mark.parametrize("word", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
def test_a_letter_that_imitates_another_is_found_and_spelled_out(word: str) -> None:
    assert hidden(f"image: {word}")
    assert visible(f"image: {word}").isascii()


@pytest.mark.parametrize("text", FINE)
def test_words_of_any_language_are_fine(text: str) -> None:
    assert not hidden(text)
    if text.isprintable():
        assert visible(text) == text


@given(st.text())
def test_what_is_shown_has_nothing_hidden(text: str) -> None:
    assert not hidden(visible(text))
    assert visible(visible(text)) == visible(text)


def _allowing(folder: Path) -> None:
    repository = Repository(git_repository.init(folder))
    repository.environment("prod", "severities: {TW780: off}\n")
    repository.job("prod/llm")
    repository.run("render")
    git_repository.commit(repository.root, "Begin")


# In YAML's own escapes, as a file of a stranger has them.
PLACES = {
    "value": "env: {{A: {text}}}\n",
    "key": "annotations: {{{text}: x}}\n",
    "flag": "flags: {{a: {text}}}\n",
    "argument": "entrypoint: {{argv: [train, {text}]}}\n",
    "description": "description: {text}\n",
    "wrong field": "{text}: 1\n",
    "wrong value": "queue: {text}\n",
    "file": "files: {{/etc/a: {{content: {text}}}}}\n",
}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_no_output_hides_what_a_spec_says(place: str, copied: Copied, tmp_path: Path) -> None:
    repository = copied(_allowing, tmp_path / "clone")
    said = "".join(one for one in UNSEEN.values() if one[0] not in "\x1b\x9b\x07")
    said += "".join(LOOK_ALIKES.values()) + " @team <img src=x> ![x](http://e.example) ##[group]"
    line = place.format(text=json.dumps(said))
    spec = repository.root / "environments/prod/jobs/llm.yaml"
    kept = [one for one in spec.read_text().splitlines() if one.split(":")[0] != line.split(":")[0]]
    spec.write_text("\n".join([*kept, line]), encoding="utf-8")
    for command in (
        *(("check", "--no-cache", "-o", output) for output in FORMATS),
        ("plan", "--files", "--against", "main"),
        *(("plan", "--against", "main", "-o", output) for output in PLAN_FORMATS),
        ("explain", "prod/llm"),
        ("explain", "prod/llm", "-o", "json"),
        ("list", "jobs"),
    ):
        done = repository.run(*command)
        assert done.exit_code in (0, 1, 2), done.output
        ours = "\u2060" if command[-1] == "markdown" else ""  # it breaks mentions and links
        left = [name for name, one in UNSEEN.items() if one[0] in done.output.replace(ours, "")]
        assert not left, (command, left)
        assert "##[" not in done.output, command
        page = done.output if command[-1] == "html" else ""
        if command[-1] == "markdown":
            page = MarkdownIt("commonmark", {"html": True}).render(done.output)
        assert "<img" not in page, command


@pytest.mark.parametrize("place", ["value", "flag", "argument", "file"])
def test_a_spec_that_hides_something_is_a_finding(place: str, repository: Repository) -> None:
    line = PLACES[place].format(text=json.dumps("safe\u202eexe"))
    spec = repository.job("prod/llm")
    kept = [one for one in spec.read_text().splitlines() if one.split(":")[0] != line.split(":")[0]]
    spec.write_text("\n".join([*kept, line]), encoding="utf-8")
    done = repository.run("check", "--no-cache", "-o", "json", "prod/llm")
    (found,) = [f for f in json.loads(done.stdout)["report"]["results"] if f["rule"] == "TW780"]
    assert "safe\\u202eexe" in found["message"]
    if place in ("value", "flag"):
        assert found["place"]["line"] == len(kept) + 1


# As an editor shows it, in the file itself.
WRITTEN = {
    "comment": ("prod/jobs/llm.yaml", "# reviewed \u202eyb\n"),
    "value": ("prod/jobs/llm.yaml", 'env: {A: "safe\u202eexe"}\n'),
    "description": ("prod/jobs/llm.yaml", "description: p\u0430y\n"),
    "escaped description": ("prod/jobs/llm.yaml", 'description: "\\u202ex"\n'),
    "reason": (
        "prod/jobs/llm.yaml",
        'waivers: {TW021: {reason: "as \\u202eagreed", until: 2027-06-30}}\n',
    ),
    "name of a file": ("prod/jobs/llm.yaml", 'files: {/a: {from: "conf/a\\u202eb"}}\n'),
    "comment of an environment": ("prod/environment.yaml", "# p\u0430y\n"),
    "comment of defaults": ("defaults.yaml", "# zero\u200bwidth\n"),
}


@pytest.mark.parametrize("where", WRITTEN)
def test_what_a_file_hides_is_found_at_its_line(where: str, repository: Repository) -> None:
    repository.write("../conf/a\u202eb", "text\n")
    repository.write("defaults.yaml", "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n")
    repository.environment("prod")
    repository.job("prod/llm")
    path, more = WRITTEN[where]
    full = repository.root / "environments" / path
    full.write_text(full.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert repository.run("render").exit_code == 1
    done = repository.run("check", "-o", "json")
    found = [f for f in json.loads(done.stdout)["report"]["results"] if f["rule"] == "TW780"]
    lines = len(full.read_text(encoding="utf-8").splitlines())
    # For each job that it reaches: the text folds them.
    places = {(f["place"]["file"], f["place"]["line"]) for f in found}
    assert places == {(f"environments/{path}", lines)}
    assert repository.run("check").stdout.count("error[TW780]") == 1


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: notes, namespace: training}
data: {a: x}
"""
# Of files that no job is made of, in one line each.
BESIDE = {
    "comment of an object": ("objects/notes.yaml", CONFIG_MAP + "# reviewed \u202eyb\n"),
    "value of an object": ("objects/notes.yaml", CONFIG_MAP.replace("x}", '"\u202ex"}')),
    "comment between objects": ("objects/notes.yaml", "# p\u0430y\n---\n" + CONFIG_MAP),
    "comment of the ledger": ("ledger.yaml", "# p\u0430y\nLEDGER"),
    "note of the ledger": ("ledger.yaml", "LEDGER    note: p\u0430y\n"),
    "escaped note of the ledger": ("ledger.yaml", 'LEDGER    note: "\\u202ey"\n'),
    "line that ends otherwise": ("ledger.yaml", "# fine\r# hidden\nLEDGER"),
    "environment without jobs": ("../lab/environment.yaml", "ENVIRONMENT# p\u0430y\n"),
}
LEDGER = """\
apiVersion: trainwright.io/v1alpha1
kind: Ledger
runs:
  old-00000000:
    job: old
    own: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
    outcome: failed
"""


@pytest.mark.parametrize("where", BESIDE)
def test_what_a_file_beside_the_jobs_hides_is_found(where: str, repository: Repository) -> None:
    environment = repository.environment("lab").read_text(encoding="utf-8")
    path, text = BESIDE[where]
    text = text.replace("LEDGER", LEDGER).replace("ENVIRONMENT", environment)
    full = repository.root / "environments/prod" / path
    full.parent.mkdir(exist_ok=True)
    full.write_text(text, encoding="utf-8", newline="")
    (line,) = [n for n, one in enumerate(text.split("\n"), start=1) if hidden(one) or "\\u" in one]
    done = repository.run("check", "--no-cache", "-o", "json")
    found = [f for f in json.loads(done.stdout)["report"]["results"] if f["rule"] == "TW780"]
    places = [(repository.root / f["place"]["file"], f["place"]["line"]) for f in found]
    assert places == [(full.resolve(), line)]
    assert repository.run("check").stdout.count("error[TW780]") == 1


def test_a_plan_shows_what_a_ledger_hides(repository: Repository) -> None:
    repository.job("prod/llm")
    repository.run("render")
    git_repository.init(repository.root)
    git_repository.commit(repository.root, "Begin")
    path = repository.root / "environments/prod/ledger.yaml"
    path.write_text("# p\u0430y\n" + LEDGER, encoding="utf-8")
    done = repository.run("plan", "--against", "HEAD")
    assert "error[TW780]: a text has the character" in done.stdout
    assert done.exit_code == 1


@pytest.mark.parametrize("comment", ["# safe \u202eexe", "# p\u0430y", "#\u200b"])
def test_a_comment_of_a_manifest_is_searched(comment: str, repository: Repository) -> None:
    for text, line in (
        (CONFIG_MAP + comment + "\n", 5),
        (f"{comment}\n---\n{CONFIG_MAP}", 1),
        (f"{CONFIG_MAP}---\n{comment}\n---\n{CONFIG_MAP.replace('notes', 'other')}", 6),
        (f"%YAML 1.1\n---\n{CONFIG_MAP}{comment}\n", 7),
    ):
        repository.write("../given/notes.yaml", text)
        done = repository.run("validate", "-o", "json", "given")
        found = [f for f in json.loads(done.stdout)["report"]["results"] if f["rule"] == "TW780"]
        assert [f["place"]["line"] for f in found] == [line], text


def test_what_a_secret_holds_is_not_shown_beside_what_it_hides(repository: Repository) -> None:
    secret = CONFIG_MAP.replace("ConfigMap", "Secret").replace("data: {a: x}", "stringData:")
    text = f"{secret}  key: hunter2\u202e\n"
    repository.write("../given/notes.yaml", text)
    repository.write("prod/objects/notes.yaml", text)
    repository.environment("prod")
    done = repository.run("validate", "given")
    assert "TW780" in done.stdout
    assert "hunter2" not in done.output + repository.run("check", "prod").output
