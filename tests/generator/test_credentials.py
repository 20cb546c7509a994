"""Credentials that are written into a spec appear in no output whatsoever."""

from __future__ import annotations

import base64
import difflib
import json
import shlex
import string
from pathlib import Path
from random import Random

import pytest
import yaml

import git_repository
from credential_examples import SECRETS as SECRET_FORMS
from repository import Copied, Repository
from trainwright.cli.common import FORMATS
from trainwright.cli.plan import FORMATS as PLAN_FORMATS
from trainwright.findings.credentials import HIDDEN, RANDOM, kind, named, redact, shows, suspicious
from trainwright.findings.redaction import redact_lines, unified_diff

# Built from parts, so that this file does not look like what it tests.
CANARY = "ghp_" + "Ab3dEf6hIj9lMn2pQr5tUv8x" * 2
PLAIN = "correct-horse-" + "77"
# As one writes a file into a spec on one line, and as a block. The body is random base64.
_BODY = [
    "".join(Random(line).choices(string.ascii_letters + string.digits + "+/", k=64))
    for line in range(4)
]
PEM = ["-----BEGIN RSA " + "PRIVATE KEY-----", *_BODY, "-----END RSA " + "PRIVATE KEY-----"]
ONE_LINE = json.dumps("\n".join(PEM))
BLOCK = "|\n" + "\n".join(f"    {line}" for line in PEM)
PIECES = [line[at : at + 12] for line in _BODY for at in range(0, 60, 12)]
PLACES = {
    "a private key on one line": f"env: {{KEY_FILE: {ONE_LINE}}}",
    "a private key as a block": f"env:\n  KEY_FILE: {BLOCK}",
    "a private key in an annotation": f"annotations: {{note: {ONE_LINE}}}",
    "a private key in a script": f"entrypoint:\n  inline: {BLOCK}",
    "a private key in a flag": f"flags: {{key-file: {ONE_LINE}}}",
    "a private key in a waiver": f'waivers: {{TW701: {{until: "2027-01-01", reason: {ONE_LINE}}}}}',
    "a private key in the wrong place": f"image: {{repository: {ONE_LINE}}}",
    "words by name": f"env: {{DB_PASSWORD: correct horse {PLAIN}, A: 1}}",
    "words by name on a line": f"env:\n  DB_PASSWORD: correct horse {PLAIN}",
    "a block by name": f"env:\n  DB_PASSWORD: |\n    correct horse\n    {PLAIN}",
    "quotes by name": f"env: {{DB_PASSWORD: 'a \"{PLAIN}'}}",
    "label": f"labels: {{example.com/password: x-{PLAIN}}}",
    "annotation by name": f"annotations: {{example.com/password: '{PLAIN}'}}",
    "flag with dots": f"flags: {{lr: 0.1, hub.token: '{PLAIN}'}}",
    "argv": f"entrypoint: {{argv: [python, train.py, --api-key, '{PLAIN}']}}",
    "waiver": f'waivers: {{TW701: {{until: "2027-01-01", reason: "see {CANARY}"}}}}',
    "description": f"description: see {CANARY}",
    "a token where only a part is shown": f"env: {{A: '{'word ' * 13}{CANARY}'}}",
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
SECRETS = (CANARY, CANARY[:20], PLAIN, "8675309123", *PIECES)
COMMANDS = (
    *(("check", "--no-cache", "-o", output) for output in FORMATS),
    ("render",),
    ("explain", "prod/llm"),
    ("explain", "prod/llm", "-o", "json"),
    ("list", "jobs"),
)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_planted_secret_is_in_no_output(place: str, repository: Repository) -> None:
    _plant(repository, place)
    for command in COMMANDS:
        done = repository.run(*command)
        assert done.exit_code in (0, 1, 2), (command, done.output)
        assert not [secret for secret in SECRETS if secret in done.output], command
    assert not [
        secret for secret in SECRETS for text in repository.tree().values() if secret in text
    ] or ("annotation" in place)


FIELDS = {
    "env": lambda values: {"env": {f"F{n}_": value for n, value in enumerate(values)}},
    "flags": lambda values: {"flags": {f"f{n}": value for n, value in enumerate(values)}},
    "argv": lambda values: {"entrypoint": {"argv": ["train", *values]}},
    "words": lambda values: {"entrypoint": {"argv": [w for v in values for w in ["train", *shlex.split(v)]]}},
    "annotations": lambda values: {"annotations": {f"n{n}": f"see {v}" for n, v in enumerate(values)}},
    "files": lambda values: {"files": {f"/etc/f{n}": {"content": f"# first\n{v}\n"} for n, v in enumerate(values)}},
    "script": lambda values: {"entrypoint": {"inline": "\n".join(values)}},
    "description": lambda values: {"description": " ".join(values)},
}  # fmt: skip


def _is_a_command(text: str) -> bool:
    return not {*"{|<\n"} & {*text}  # what a shell reads is one word of its command


@pytest.mark.slow
@pytest.mark.parametrize("field", FIELDS)
def test_every_known_form_is_in_no_output(field: str, copied: Copied, tmp_path: Path) -> None:
    repository = copied(_allowing, tmp_path / "clone")
    secrets = [one for one in SECRET_FORMS.values() if field != "words" or _is_a_command(one[0])]
    values = [text.replace("$w", "w") for text, _ in secrets]
    hidden = [secret for _, secret in secrets]
    if field not in ("words", "script"):
        values += [*map(_b64, values)]
        hidden += [_b64(text) for text, _ in secrets]
    _plant(repository, yaml.safe_dump(FIELDS[field](values), width=10**6))
    for command in (
        *(("check", "--no-cache", "-o", output) for output in FORMATS),
        ("plan", "--files", "--against", "main"),
        *(("plan", "--against", "main", "-o", output) for output in PLAN_FORMATS),
        ("explain", "prod/llm"),
        ("explain", "prod/llm", "-o", "json"),
        ("promote", "prod/llm", "dev"),
    ):
        done = repository.run(*command)
        assert done.exit_code in (0, 1, 2), done.output
        assert not [secret for secret in hidden if secret in done.output], command


def _plant(repository: Repository, place: str) -> None:
    keys = {line.split(":")[0] for line in place.splitlines()}
    repository.job("prod/llm")
    job = repository.root / "environments/prod/jobs/llm.yaml"
    kept = [line for line in job.read_text().splitlines() if line.split(":")[0] not in keys]
    job.write_text("\n".join([*kept, place, ""]))


def _allowing(folder: Path) -> None:
    repository = Repository(git_repository.init(folder))
    repository.environment("prod", "severities: {TW710: off}\n")
    repository.job("prod/llm")
    repository.run("render")
    git_repository.commit(repository.root, "Begin")


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_planted_secret_that_is_allowed_is_in_no_output(
    place: str, copied: Copied, tmp_path: Path
) -> None:
    repository = copied(_allowing, tmp_path / "clone")
    _plant(repository, place)
    for command in (
        *(("check", "--no-cache", "-o", output) for output in FORMATS),
        ("plan", "--files", "--against", "main"),
        *(("plan", "--against", "main", "-o", output) for output in ("text", "json", "markdown")),
        ("explain", "prod/llm"),
        ("promote", "prod/llm", "dev"),
        ("suspend", "prod/llm"),
    ):
        done = repository.run(*command)
        assert done.exit_code in (0, 1, 2), done.output
        assert not [secret for secret in SECRETS if secret in done.output], (command, done.output)


NAMES = {
    "variable": f"env: {{{CANARY}: x}}",
    "flag": f"flags: {{{CANARY}: 1}}",
    "label": f"labels: {{{CANARY}: x}}",
    "annotation": f"annotations: {{example.com/{CANARY}: x}}",
    "file": f"files: {{/etc/{CANARY}: {{content: x}}}}",
    "secret": f"secrets: {{{CANARY}: {{name: x, key: y}}}}",
    "image": f"image: {{repository: registry.example.com/x, tag: {CANARY}}}",
    "base": f"extends: base/{CANARY.lower()}",
    "tag": f"env: !{CANARY} x",
}


@pytest.mark.parametrize("place", NAMES.values(), ids=NAMES)
def test_a_credential_for_a_name_is_in_no_output(
    place: str, copied: Copied, tmp_path: Path
) -> None:
    repository = copied(_allowing, tmp_path / "clone")
    _plant(repository, place)
    for command in (
        ("check", "--no-cache"),
        ("plan", "--files", "--against", "main"),
        *(("plan", "--against", "main", "-o", output) for output in PLAN_FORMATS),
        ("explain", "prod/llm"),
        ("report",),
    ):
        done = repository.run(*command)
        assert done.exit_code in (0, 1, 2), done.output
        shown = done.output.replace("\\", "")
        assert not [secret for secret in (CANARY, CANARY.lower()) if secret in shown], command


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("DB_PASSWORD: hunter2", f"DB_PASSWORD: {HIDDEN}"),
        ('"api_key": "abc-1", x: y', f'"api_key": {HIDDEN}, x: y'),
        ("env.HF_TOKEN: 'abc-1'  # job", f"env.HF_TOKEN: {HIDDEN}  # job"),
        ("HF_TOKEN: {name: hf, key: token}", "HF_TOKEN: {name: hf, key: token}"),
        ("secrets: {A: {name: hf, key: token}}", "secrets: {A: {name: hf, key: token}}"),
        ("password='it''s me'", f"password={HIDDEN}"),
        ("password: required", "password: required"),
        ("MAX_TOKENS: 4096", "MAX_TOKENS: 4096"),
        ("digest: sha256:" + "0f" * 32, "digest: sha256:" + "0f" * 32),
    ],
)
def test_redaction(text: str, redacted: str) -> None:
    assert redact(text) == redacted


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Put together from parts, as above.
FORMS = {
    "AWS access key": "ASIA" + "ABCDEFGHIJKLMNOP",
    "GitHub token": "ghs_" + "a1B2" * 9,
    "GitLab token": "glrt-" + "a1B2c" * 4,
    "Hugging Face token": "hf_" + "a1B2c3" * 6,
    "API key": "rk_" + "live_" + "a1B2c3" * 4,
    "Slack token": "xapp-1-A0-" + "1234567890abc",
    "webhook address": "https://hooks.slack.com/services/"
    + "T0000000/B0000000/aB3dEf6hIj9lMn2pQr5t",
    "Google API key": "GOCSPX-" + "a1B2c3" * 4,
    "npm token": "npm_" + "aB1c" * 9,
    "PyPI token": "pypi-AgE" + "a1B2c" * 10,
    "Docker token": "dckr_pat_" + "a1B2c" * 5,
    "Databricks token": "dapi" + "0f" * 16,
    "Vault token": "hvs." + "CAESI" * 5,
    "DigitalOcean token": "dop_v1_" + "0f" * 32,
    "SendGrid key": "SG." + "a1B2" * 5 + "." + "c3D4" * 8,
    "Replicate token": "r8_" + "a1B2" * 9 + "c",
    "Azure storage key": "DefaultEndpointsProtocol=https;AccountKey=" + "aB3d" * 21 + "==",
    "signature in a URL": "https://x.blob.core.windows.net/c?sv=2024&sig=" + "aBcD%2f" * 5,
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.c2lnbmF0dXJl",
    "private key": "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "authorization header": "Authorization: Bearer " + "abcdef123456",
    "password in a URL": "https://api.example.com/v1?api_key=" + "abc123def",
    RANDOM: "q7Zt9LmX2vRk4WpYc8Ns" + "Bd6JfHg3Ua5E",
}
PLAIN_WORDS = [
    # digests and other names of content
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "sha512-"
    + "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==",
    "SHA256:" + "AwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISI=",
    "registry.example.com/ml/train:1.0@sha256:" + "0f" * 32,
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    # paths and addresses
    "/mnt/Shared-Data_2026/Experiments/ResNet50/run_00017/checkpoints/step_00012000.pt",
    "s3://my-Bucket/Experiment2026/RunWith_LR0.001_BS256_WD0.1_Seed42_Adam_CosineSchedule",
    "https://huggingface.co/datasets/HuggingFaceFW/fineweb-edu/resolve/main/10BT/000_00000.parquet",
    "https://user:$(PASSWORD)@proxy.example.com",
    "nfs.example.com:/export/Home/JaneDoe/Workspace2026/TrainingData",
    # identifiers
    "550e8400-e29b-41d4-a716-446655440000",
    "/subscriptions/550e8400-e29b-41d4-a716-446655440000/resourceGroups/MyGroup01",
    "arn:aws:iam::123456789012:role/TrainingJobExecutionRole",
    "offline-run-20260101_120000-a1b2c3d4",
    # models and data sets
    "meta-llama/Meta-Llama-3.1-405B-Instruct-FP8-dynamic",
    "facebook/wav2vec2-large-xlsr-53-german-with-lm-and-punctuation",
    "CheckpointResNet50ImageNet1kPretrainedV2WithAugReg",
    "EfficientNetV2LargeImageNet21kFinetunedOn1kAt480",
    "gpt2-medium-openwebtext-LoRA-r16-alpha32-dropout0.05-bf16-8xH100",
    # base64 of text that people can read
    _b64("hello"),
    _b64("hello world, this is a long sentence 42 with Numbers"),
    _b64('{"epochs": 90, "lr": 0.1, "model": "ResNet50"}'),
    "--world_info=" + _b64('{"node-0":[0,1,2,3],"node-1":[0,1,2,3]}'),
    "SETTINGS=" + _b64('{"epochs": 90, "lr": 0.1, "model": "ResNet50"}'),
    "--world_info=" + _b64('{"node": [0, 1], "x": 0}'),
    _b64("s3://my-Bucket/Experiment2026/RunWith7"),
    # public by purpose
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8uN3mW2vQxYb0Zr5kT7pLc9dEfGhA1B2C3D4E5F6G7 me@x",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQsw\n",
    # settings
    "expandable_segments:True,max_split_size_mb:512,garbage_collection_threshold:0.8",
    "--xla_gpu_enable_latency_hiding_scheduler=true",
    "mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7",
]


@pytest.mark.parametrize(("found", "value"), FORMS.items())
def test_every_form_is_known_by_its_name(found: str, value: str) -> None:
    assert kind(value) == found
    assert kind(f"--x={value}") == found
    assert kind(f"set X={value} and go") == found
    assert value not in redact(f"setting: {value}")


@pytest.mark.parametrize("value", PLAIN_WORDS)
def test_what_only_looks_random_is_left_alone(value: str) -> None:
    assert kind(value) == ""
    assert not shows(value)


_WORD = "Xk39" + "dlPq81"
_AUTH = base64.b64encode(f"ci-bot:{_WORD}".encode()).decode()
_RANDOM_WORD = "q7Zt9LmX2vRk4WpYc8Ns" + "Bd6JfHg3Ua5E"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"auths":{{"ghcr.io":{{"username":"ci-bot","password":"{_WORD}"}}}}}}',
        f'{{"auths": {{"ghcr.io": {{"auth": "{_AUTH}"}}}}}}',
        f'{{"auths": {{"ghcr.io": {{"identitytoken": "{_WORD}"}}}}}}',
        json.dumps({"auths": {f"r{n}.example.com": {"auth": _AUTH} for n in range(20)}}),
        f"deploy-bot-of-ci:{_WORD}",
        f"postgres://me:{_WORD}@db.example.com/x",
        f"export HF_TOKEN={_WORD}; train",
        f"train --api-key {_WORD} --epochs 9",
        f"see {_RANDOM_WORD} for more",
        _RANDOM_WORD[:24],
        _b64(f"deploy-bot-of-ci:{_WORD}"),
    ],
)
@pytest.mark.parametrize("before", ["", "--docker-config=", "REGISTRY=", "-c="])
def test_base64_of_a_credential_is_one(before: str, text: str) -> None:
    """By whatever is read at the end of it, and with or without a name in front."""
    for encoded in (_b64(text), _b64(text).rstrip("="), base64.urlsafe_b64encode(text.encode()).decode()):  # fmt: skip
        assert kind(f"{before}{encoded}") == RANDOM
        assert suspicious(f"{before}{encoded}")
        assert encoded not in redact(f"args: {before}{encoded}")


def test_a_short_user_and_password_behind_a_name() -> None:
    encoded = _b64(f"deploy:{_WORD}")
    assert kind(f"REGISTRY={encoded}") == RANDOM
    assert encoded not in redact(f"REGISTRY={encoded}")


@pytest.mark.parametrize("before", ["", "9"])
@pytest.mark.parametrize("after", ["=", "==", "=" + _b64("hello world"), "==" + _b64("hello")])
def test_a_random_word_is_not_the_name_of_what_follows(before: str, after: str) -> None:
    word = f"{before}{_RANDOM_WORD}{after}"
    assert kind(word) == RANDOM
    assert _RANDOM_WORD not in redact(word)


def test_a_random_word_behind_the_end_of_base64() -> None:
    assert kind(_b64("hello you") + "=" + _RANDOM_WORD) == RANDOM
    assert kind(_b64("hello") + _RANDOM_WORD) == RANDOM


@pytest.mark.parametrize("length", [32, 40, 64])
def test_random_words_are_found(length: int) -> None:
    """The bound is far below what is found (97 of 100 of the shortest), so luck decides nothing."""
    random = Random(length)
    letters = string.ascii_letters + string.digits
    words = ["".join(random.choices(letters, k=length)) for _ in range(500)]
    assert sum(kind(word) == RANDOM for word in words) > 450


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("DB_PASSWORD", "s3cret!", True),
        ("PGPASSWORD", "s3cret!", True),
        ("MYSQL_PWD", "s3cret!", True),
        ("PWD", "workspace-1", False),
        ("dbPassword", "s3cret!", True),
        ("auth.token", "abc-123", True),
        ("storageAccountKey", "abc-123", True),
        ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=x;y", True),
        ("HF_TOKEN", "${HF_TOKEN}", False),
        ("HF_TOKEN", "<your token>", False),
        ("EOS_TOKEN_ID", "151643", False),
        ("pad_token", "</s>", False),
        ("tokenizer", "gpt2-medium", False),
        ("KEYBOARD", "us-intl", False),
    ],
)
def test_names_of_credentials(name: str, value: str, found: bool) -> None:
    assert named(name, value) is found


@pytest.mark.parametrize(
    "text",
    [
        *FORMS.values(),
        *("PGPASSWORD=x", "MYSQL_PWD", "dbPassphrase", "auth.token", "Connection-String"),
        *("CREDENTIALS", "ACCESS_KEY", "".join(Random(1).choices(string.ascii_letters, k=32))),
    ],
)
def test_no_credential_is_missed_by_the_first_look(text: str) -> None:
    assert suspicious(f"NCCL_DEBUG\nINFO\n{text}\n--lr=0.1")


def test_what_the_first_look_lets_through() -> None:
    assert not suspicious("NCCL_DEBUG\nINFO\ntorchrun\n--data=/mnt/a\n--lr=0.1")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("export HF_TOKEN=abc-123; python train.py", True),
        ("WANDB_API_KEY=local-1 exec python train.py", True),
        ("export HF_TOKEN=$(cat /run/token); python train.py", False),
        ("python train.py --max-tokens=4096 tokenizer=gpt2-medium", False),
        ("model.pad_token=<pad> trainer.seed=1", False),
    ],
)
def test_credentials_in_a_shell_line(line: str, found: bool) -> None:
    assert shows(line) is found


@pytest.mark.parametrize(
    "word", ["a", "a.", "a-", "http://", "eyJ", "Ab3", "TOKEN", "sk-a!", "?sig=", "ssh-rsa "]
)
def test_a_quarter_megabyte_of_anything_is_read_in_a_moment(word: str) -> None:
    """Each of these took minutes with a pattern that tries every start of a word."""
    text = word * (250_000 // len(word))
    assert redact(text) == text


# --- what is found, and where --------------------------------------------------------------------


def _found(repository: Repository) -> list[tuple[str, int]]:
    done = repository.run("check", "--no-cache", "-o", "json", "prod/llm")
    report = json.loads(done.stdout)
    return [
        (f["path"], f["place"]["line"]) for f in report["report"]["results"] if f["rule"] == "TW710"
    ]


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("field", ["annotations", "env"])
def test_a_credential_is_found_in_every_map(field: str, value: str, repository: Repository) -> None:
    lines = f"{field}:\n  first.example.com/a: b\n  EXAMPLE.note: {json.dumps(value)}\n"
    repository.job(
        "prod/llm",
        lines.replace("first.example.com/a", "A").replace("EXAMPLE.", "E_")
        if field == "env"
        else lines,
    )
    name = "env.E_note" if field == "env" else 'annotations["EXAMPLE.note"]'
    assert _found(repository) == [(name, 12)]


@pytest.mark.parametrize(
    ("extra", "path", "line"),
    [
        (f"flags:\n  lr: 0.1\n  hub.token: {PLAIN}\n", 'flags["hub.token"]', 12),
        (f"flags:\n  lr: 0.1\n  0.token: {PLAIN}\n", 'flags["0.token"]', 12),
        (
            f"labels:\n  a: b\n  example.com/api-key: x-{PLAIN}\n",
            'labels["example.com/api-key"]',
            12,
        ),
        (
            f"annotations:\n  a: b\n  example.com/password: {PLAIN}\n",
            'annotations["example.com/password"]',
            12,
        ),
        (f"description: see {CANARY}\n", "description", 10),
        (
            f'waivers:\n  TW701:\n    until: "2027-01-01"\n    reason: see {CANARY}\n',
            "waivers.TW701.reason",
            13,
        ),
    ],
)
def test_a_credential_is_found_at_its_line(
    extra: str, path: str, line: int, repository: Repository
) -> None:
    repository.job("prod/llm", extra)
    assert _found(repository) == [(path, line)]


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ("flags: {secret: hf-token}\n", False),
        ("flags: {kube-secret: registry.credentials}\n", False),
        (f"flags: {{secret: {PLAIN}}}\n", True),
        (f"flags: {{secret: {PLAIN}}}\nsecrets: {{A: {{name: {PLAIN}, key: k}}}}\n", False),
        (
            f"flags: {{secret: {PLAIN}}}\nvolumes: {{v: {{secret: {PLAIN}, mountPath: /v}}}}\n",
            False,
        ),
        ("flags: {client-secret: abc-123}\n", True),
        ("flags: {token: hf-token-1}\n", True),
    ],
)
def test_the_name_of_a_secret_is_not_one(extra: str, found: bool, repository: Repository) -> None:
    repository.job("prod/llm", extra)
    assert bool(_found(repository)) is found


MANIFEST = """\
apiVersion: batch/v1
kind: Job
metadata: {name: x}
spec:
  template:
    spec:
      containers:
      - name: x
        image: x
        args: ["--secret", "hf-1", "--token", PLAIN]
        env:
        - {name: DB_PASSWORD, value: PLAIN}
        - {value: PLAIN, name: DB_PASSWORD}
        - name: DB_PASSWORD
          value: PLAIN
        - value: PLAIN
          # the name is below
          name: DB_PASSWORD
        - name: HF
          valueFrom: {secretKeyRef: {name: hf-1, key: token}}
"""


def test_a_value_is_hidden_whatever_else_is_found_on_its_line() -> None:
    lines = redact_lines(MANIFEST.replace("PLAIN", PLAIN).splitlines())
    assert len(lines) == MANIFEST.count("\n")
    assert not [line for line in lines if PLAIN in line]
    assert "secretKeyRef: {name: hf-1, key: token}" in lines[-1]


def test_what_follows_a_private_key_is_shown() -> None:
    text = ["a: |", *(f"  {line}" for line in PEM), "b: 1", f"c: {ONE_LINE}", "d: 2"]
    lines = redact_lines(text)
    assert (lines[0], lines[-3], lines[-1]) == ("a: |", "b: 1", "d: 2")
    assert not [line for line in lines for piece in PIECES if piece in line]


def test_a_diff_hides_the_middle_of_a_key_and_shows_that_it_changes() -> None:
    old = ["a: |", *(f"  {line}" for line in PEM), "b: 1"]
    new = [*old[:3], f"  {_BODY[0][::-1]}", *old[4:]]
    lines = list(unified_diff(old, new, old="a", new="b", context=0))
    assert [line[:1] for line in lines[3:]] == ["-", "+"]
    assert not [line for line in lines for piece in (*PIECES, _BODY[0][::-1]) if piece in line]


def test_a_diff_is_that_of_the_standard_library_where_nothing_is_hidden() -> None:
    old, new = (
        "a: 1\nb: 2\n@@ c\nd: 4".splitlines(True),
        "a: 1\nb: 3\n@@ c\n-- d\n".splitlines(True),
    )
    wanted = difflib.unified_diff(old, new, "a", "b", n=3)
    assert list(unified_diff(old, new, old="a", new="b")) == list(wanted)
