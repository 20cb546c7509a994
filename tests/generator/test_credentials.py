"""Credentials that somebody wrote into a spec appear in no output whatsoever."""

from __future__ import annotations

import base64
import string
from random import Random

import pytest
import yaml

from repository import Repository
from trainwright.cli.check import FORMATS
from trainwright.credentials import HIDDEN, RANDOM, kind, named, redact, shows, suspicious

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
    assert kind(f"set X={value} and go") == found
    assert value not in redact(f"setting: {value}")


@pytest.mark.parametrize("value", PLAIN_WORDS)
def test_what_only_looks_random_is_left_alone(value: str) -> None:
    assert kind(value) == ""
    assert not shows(value)


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
