"""Credentials that somebody wrote into a spec appear in no output whatsoever."""

from __future__ import annotations

import pytest
import yaml

from repository import Repository
from trainwright.cli.check import FORMATS
from trainwright.credentials import HIDDEN, redact

# Built from parts, so that this file does not look like what it tests.
CANARY = "ghp_" + "Ab3dEf6hIj9lMn2pQr5tUv8x" * 2
PLAIN = "correct-horse-" + "77"
PLACES = {
    "env": f"env: {{SETTING: {CANARY}}}",
    "env by name": f"env: {{DB_PASSWORD: {PLAIN}}}",
    "env by name, as a number": "env: {DB_PASSWORD: 8675309123}",
    "flags": f"flags: {{token: {CANARY}}}",
    "flags by name": f"flags: {{api-key: {PLAIN}}}",
    "flag list": f"flags: {{x: [a, {CANARY}]}}",
    "unknown key": f"enviroment: {{DB_PASSWORD: {PLAIN}}}",
    "annotation": f"annotations: {{note: {CANARY}}}\nenv: {{A: 1}}",
    "beside another mistake": f"env: {{DB_PASSWORD: {PLAIN}, A: 1}}",
    "a URL": f"env: {{DB: 'postgres://me:{PLAIN}@db.example.com/x'}}",
    "queue": f"queue: {CANARY}",
    "duration": f"maxDuration: {CANARY}",
    "secrets that are no references": f"secrets: {{DB_PASSWORD: {PLAIN}}}",
}
SECRETS = (CANARY, PLAIN, "8675309123")
COMMANDS = (
    *(("check", "--no-cache", "-o", output) for output in FORMATS),
    ("render",),
    ("diff",),
    ("explain", "prod/llm"),
    ("explain", "prod/llm", "-o", "json"),
    ("list", "jobs"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_planted_secret_is_in_no_output(
    place: str, command: tuple[str, ...], repository: Repository
) -> None:
    spec = yaml.safe_load(place)
    repository.write(
        "prod/jobs/llm.yaml",
        "\n".join(
            line
            for line in (repository.root / "environments/prod/jobs/llm.yaml")
            .read_text()
            .splitlines()
            if line.split(":")[0] not in spec
        )
        + f"\n{place}\n",
    )
    done = repository.run(*command)
    assert done.exit_code in (0, 1, 2), done.output
    for secret in SECRETS:
        assert secret not in done.output
    if command[0] == "render":
        assert not [
            secret for secret in SECRETS for text in repository.tree().values() if secret in text
        ] or ("annotation" in place)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("DB_PASSWORD: hunter2", f"DB_PASSWORD: {HIDDEN}"),
        ('"api_key": "abc-1", x: y', f'"api_key": {HIDDEN}, x: y'),
        ("env.HF_TOKEN: 'abc-1'  # job", f"env.HF_TOKEN: {HIDDEN}  # job"),
        ("HF_TOKEN: {name: hf, key: token}", "HF_TOKEN: {name: hf, key: token}"),
        ("secrets: {A: {name: hf, key: token}}", "secrets: {A: {name: hf, key: token}}"),
        ("MAX_TOKENS: 4096", "MAX_TOKENS: 4096"),
        ("digest: sha256:" + "0f" * 32, "digest: sha256:" + "0f" * 32),
    ],
)
def test_redaction(text: str, redacted: str) -> None:
    assert redact(text) == redacted


@pytest.mark.parametrize("word", ["a", "a.", "a-", "http://", "eyJ", "Ab3", "TOKEN", "sk-a!"])
def test_a_quarter_megabyte_of_anything_is_read_in_a_moment(word: str) -> None:
    """Each of these took minutes with a pattern that tries every start of a word."""
    text = word * (250_000 // len(word))
    assert redact(text) == text
