"""Credentials as people write them, and harmless text that looks as random: what tests feed.

Each is put together from parts, so that this file does not look like what it tests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import string
import uuid
from random import Random

_RANDOM = Random(20261123)
_WORD = string.ascii_letters + string.digits


def _of(alphabet: str, length: int) -> str:
    return "".join(_RANDOM.choices(alphabet, k=length))


def _word(length: int) -> str:
    """Random, with what every policy of passwords asks for."""
    return "a7Q" + _of(_WORD, length - 3)


def _hex(length: int) -> str:
    return _of("0123456789abcdef", length)


def _upper(length: int) -> str:
    return _of(string.ascii_uppercase + string.digits, length)


def _jwt() -> str:
    parts = ({"alg": "HS256"}, {"sub": "ci", "exp": 1893456000})
    return ".".join(
        [
            *(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts),
            _word(43),
        ]
    )


PASSWORD = "Xk39" + "-dl.Pq81"
_PEM = "\n".join(_of(_WORD + "+/", 64) for _ in range(3))

# What is written, and what of it must never be shown. One text where all of it is secret.
_SECRETS: dict[str, str | tuple[str, str]] = {
    # clouds
    "aws-key-id": "AK" + "IA" + _upper(16),
    "aws-session-key-id": "AS" + "IA" + _upper(16),
    "aws-bedrock": "AB" + "SK" + _of(_WORD, 120),
    "aws-secret-bare": "wJ7r" + _of(_WORD, 12) + "/" + "K7" + _of(_WORD, 9) + "/" + _of(_WORD, 11),
    "azure-client-secret": "abC8" + "Q~" + _of(_WORD + "-_.", 33) + "a",
    "azure-client-secret-dots": "~x.1" + "Q~" + _of(_WORD, 34),
    "azure-storage": ("AccountName=ml;Account" + "Key=" + (k := _of(_WORD + "+/", 86)) + "==", k),
    "azure-service-bus": ("Endpoint=sb://x.servicebus.windows.net/;SharedAccess" + "Key=" + (k := _of(_WORD, 43)) + "=", k),
    "azure-sas": ("https://ml.blob.core.windows.net/c?sv=2024&si" + "g=" + (k := _of(_WORD, 40)) + "%3D", k),
    "gcp-api-key": "AI" + "za" + _of(_WORD + "-_", 35),
    "gcp-oauth-secret": "GOC" + "SPX-" + _of(_WORD, 28),
    "gcp-access-token": "ya" + "29." + _of(_WORD + "-_", 80),
    "gcp-refresh-token": "1/" + "/0" + _of(_WORD + "-_", 60),
    "digitalocean": "dop" + "_v1_" + _hex(64),
    "alibaba": "LT" + "AI" + _word(20),
    "yandex": "AQ" + "VN" + _word(36),
    "heroku": "HR" + "KU-" + str(uuid.UUID(int=_RANDOM.getrandbits(128))),
    "fly": "fm" + "2_" + _word(80),
    "cloudflare-origin": "v1" + ".0-" + _hex(24) + "-" + _hex(146),
    "netlify": "nf" + "p_" + _word(40),
    "planetscale": "pscale" + "_tkn_" + _word(40),
    "supabase-token": "sb" + "p_" + _hex(40),
    "supabase-secret": "sb" + "_secret_" + _word(31),
    "terraform": _word(14) + ".atlas" + "v1." + _word(67),
    "pulumi": "pu" + "l-" + _hex(40),
    "tailscale": "ts" + "key-auth-" + _word(11) + "-" + _word(20),
    # code and packages
    "github-classic": "gh" + "p_" + _word(36),
    "github-app": "gh" + "s_" + _word(36),
    "github-fine": "github" + "_pat_" + _word(22) + "_" + _word(59),
    "gitlab": "gl" + "pat-" + _word(20),
    "gitlab-ci": "gl" + "cbt-" + _word(25),
    "gitlab-deploy": "gl" + "dt-" + _word(20),
    "bitbucket": "AT" + "BB" + _word(32),
    "atlassian": "AT" + "ATT3" + _word(180),
    "npm": "np" + "m_" + _word(36),
    "pypi": "pyp" + "i-AgE" + _word(150),
    "docker": "dckr" + "_pat_" + _word(27),
    "rubygems": "ruby" + "gems_" + _hex(48),
    "crates": "ci" + "o" + _word(32),
    "artifactory": "AK" + "Cp" + _word(69),
    "circleci": "CCI" + "PAT_" + _word(40),
    "buildkite": "bk" + "ua_" + _hex(40),
    "sonar": "sq" + "p_" + _hex(40),
    "postman": "PM" + "AK-" + _hex(24) + "-" + _hex(34),
    "linear": "lin" + "_api_" + _word(40),
    "notion": "nt" + "n_" + _word(46),
    "figma": "fi" + "gd_" + _word(40),
    "airtable": "pa" + "t" + _word(14) + "." + _hex(64),
    # machine learning
    "hugging-face": "h" + "f_" + _word(34),
    "wandb-new": "wandb" + "_v1_" + _word(80),
    "wandb-login": ("wandb login " + (k := _hex(40)), k),
    "wandb-assigned": ("WANDB_KEY=" + (k := _hex(40)), k),
    "wandb-json": ('{"wandb": {"api_' + 'key": "' + (k := _hex(40)) + '"}}', k),
    "kaggle-json": ('{"username":"ann","key":"' + (k := _hex(32)) + '"}', k),
    "kaggle-variable": ("KAGGLE" + "_KEY=" + (k := _hex(32)), k),
    "kaggle-token": "KG" + "AT_" + _hex(32),
    "kaggle-config": ("kaggle config set -n key -v " + (k := _hex(32)), k),
    "openai": "s" + "k-" + _word(48),
    "openai-project": "s" + "k-proj-" + _word(80),
    "anthropic": "s" + "k-ant-api03-" + _word(90),
    "groq": "gs" + "k_" + _word(52),
    "xai": "xa" + "i-" + _word(80),
    "perplexity": "ppl" + "x-" + _word(48),
    "nvidia": "nv" + "api-" + _word(64),
    "replicate": "r" + "8_" + _word(37),
    "databricks": "da" + "pi" + _hex(32),
    "langsmith": "ls" + "v2_pt_" + _hex(32) + "_" + _hex(10),
    "pinecone": "pc" + "sk_" + _word(60),
    "runpod": "rp" + "a_" + _upper(44),
    "elevenlabs": "s" + "k_" + _hex(48),
    "prefect": "pn" + "u_" + _word(36),
    # mail, chat, payment, monitoring
    "twilio": "S" + "K" + _hex(32),
    "sendgrid": "S" + "G." + _word(22) + "." + _word(43),
    "mailgun": "ke" + "y-" + _hex(32),
    "mailgun-new": _hex(32) + "-" + _hex(8) + "-" + _hex(8),
    "mailchimp": _hex(32) + "-u" + "s21",
    "brevo": "xkey" + "sib-" + _hex(64) + "-" + _word(16),
    "slack-bot": "xo" + "xb-" + "123456789012-123456789012-" + _word(24),
    "slack-rotated": "xo" + "xe.xoxp-1-" + _word(60),
    "slack-hook": "https://hooks.slack.com/serv" + "ices/T00000000/B00000000/" + _word(24),
    "discord-hook": "https://discord.com/api/web" + "hooks/123456789012345678/" + _word(68),
    "discord-bot": "M" + _word(25) + "." + _word(6) + "." + _word(38),
    "telegram": "123456789:" + "AA" + _word(33),
    "stripe": "s" + "k_live_" + _word(24),
    "stripe-hook": "wh" + "sec_" + _word(32),
    "square": "sq" + "0csp-" + _word(43),
    "shopify": "sh" + "pat_" + _hex(32),
    "grafana": "gl" + "sa_" + _word(32) + "_" + _hex(8),
    "newrelic": "NR" + "AK-" + _upper(27),
    "sentry": "sntr" + "ys_" + _word(80),
    "dynatrace": "dt0" + "c01." + _upper(24) + "." + _upper(64),
    "doppler": "dp" + ".pt." + _word(43),
    "vault": "hv" + "s." + _word(90),
    "one-password": "ops" + "_eyJ" + _word(80),
    # keys and tokens of any service
    "age": "AGE-SECRET" + "-KEY-1" + _of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "age-post-quantum": "AGE-SECRET" + "-KEY-PQ-1" + _of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58),
    "pem": ("-----BEGIN RSA " + "PRIVATE KEY-----\n" + _PEM + "\n-----END RSA " + "PRIVATE KEY-----", _PEM.splitlines()[1]),
    "jwt": _jwt(),
    "bcrypt": "$2" + "y$10$" + _word(53),
    "random": "q7Zt9LmX2vRk" + "4WpYc8NsBd6JfHg3Ua5E",
    # what programs read
    "netrc": ("machine api.wandb.ai login user password " + (k := _hex(40)), k),
    "netrc-lines": ("machine example.com\n  login bot\n  password " + PASSWORD, PASSWORD),
    "pgpass": ("db.example.com:5432:runs:bot:" + PASSWORD, PASSWORD),
    "curl": ("curl -u bot:" + PASSWORD + " https://example.com/x", PASSWORD),
    "curl-joined": ("curl -fsSL -ubot:" + PASSWORD + " https://example.com/x", PASSWORD),
    "curl-long": ("curl --user 'bot:" + PASSWORD + "' https://example.com/x", PASSWORD),
    "curl-header": ('curl -H "Authorization: Bearer ' + (k := _word(20)) + '" https://example.com', k),
    "private-token": ('curl -H "PRIVATE-TOKEN: ' + PASSWORD + '" https://example.com', PASSWORD),
    "mysql": ("mysql -h db -uroot -p" + PASSWORD + " runs", PASSWORD),
    "mysqldump": ("/usr/bin/mysqldump --single-transaction -p'" + PASSWORD + "' runs", PASSWORD),
    "sshpass": ("sshpass -p " + PASSWORD + " ssh me@host", PASSWORD),
    "redis": ("redis-cli -h r -a " + PASSWORD + " ping", PASSWORD),
    "docker-login": ("docker login ghcr.io -u bot -p " + PASSWORD, PASSWORD),
    "skopeo": ("skopeo copy --src-creds bot:" + PASSWORD + " a b", PASSWORD),
    "mongo": ("mongosh --host m -u bot -p " + PASSWORD, PASSWORD),
    "openssl": ("openssl enc -d -pass pass:" + PASSWORD + " -in x", PASSWORD),
    "minio": ("mc alias set s3 https://s3.example.com bot " + PASSWORD, PASSWORD),
    "aws-configure": ("aws configure set aws_secret_access_key " + PASSWORD, PASSWORD),
    "smb": ("smbclient //nas/x -U bot%" + PASSWORD, PASSWORD),
    "export": ("export DB_PASS=" + PASSWORD + " && python train.py", PASSWORD),
    # addresses
    "url-password": ("postgres://bot:" + PASSWORD + "@db.example.com/x", PASSWORD),
    "url-signs": ("postgres://bot:p$w" + PASSWORD + "@db.example.com/x", PASSWORD),
    "url-token": ("https://" + (k := _word(40)) + "@git.example.com/x.git", k),
    "sentry-dsn": ("https://" + (k := _hex(32)) + "@o1.ingest.sentry.io/2", k),
    "url-query": ("https://api.example.com/v1?access_" + "token=" + PASSWORD, PASSWORD),
    "redis-url": ("redis://:" + PASSWORD + "@cache:6379/0", PASSWORD),
    # files
    "npmrc": ("//registry.npmjs.org/:_auth" + "Token=" + PASSWORD, PASSWORD),
    "aws-file": ("[default]\naws_secret_access_" + "key = " + PASSWORD, PASSWORD),
    "ini": ("[smtp]\nuser = bot\npass = " + PASSWORD, PASSWORD),
    # more of them
    "google-hmac-id": "GOO" + "G1E" + _upper(55),
    "gitlab-runner-token": "gl" + "rtr-" + _word(20),
    "notion-old": "secret" + "_" + _word(43),
    "jina": "jin" + "a_" + _word(60),
    "e2b": "e2" + "b_" + _hex(40),
    "modal": "a" + "s-" + _word(22),
    "rancher": "token" + "-a1b2c:" + _of(string.ascii_lowercase + string.digits, 54),
    "asana": "1/" + _of("123456789", 16) + ":" + _hex(32),
    "vault-old": "s" + "." + _word(24),
    "azure-devops": ("AZURE_DEVOPS_EXT_PAT=" + (k := "a7" + _of(string.ascii_lowercase[:26] + "234567", 50)), k),
    "conda-url": ("https://conda.example.com/t/" + (k := _word(30)) + "/private", k),
    "odbc": ("Driver=x;Server=db;UID=bot;PWD=" + PASSWORD + ";", PASSWORD),
    "login-by-python": ('hub.login("' + (k := "a7" + _hex(40)) + '")', k),
    "docker-login-by-pipe": ("echo " + PASSWORD + " | docker login -u bot --password-stdin ghcr.io", PASSWORD),
    "docker-login-by-string": ("docker login --password-stdin <<< '" + PASSWORD + "'", PASSWORD),
    "helm-login-by-pipe": ("printf %s '" + PASSWORD + "' | helm registry login -u bot --password-stdin x", PASSWORD),
    "dvc": ("dvc remote modify --local store password " + PASSWORD, PASSWORD),
    "npm-set": ("npm config set //r.example.com/:_auth" + "Token " + PASSWORD, PASSWORD),
    "keytool": ("keytool -list -storepass " + PASSWORD, PASSWORD),
    "letters-alone": ('{"db":{"pass' + 'word":"' + (k := "GrHvyNiDbOJfxsjw") + '"}}', k),
    "small-letters-alone": ("DB_PASS" + "WORD=" + (k := "xqvzkwpfjgbhtqdx"), k),
    "key-of-a-key": ("spark.hadoop.fs.s3a.secret.key=" + PASSWORD, PASSWORD),
    "assigned-by-colon": ("DB_PASS" + "WORD:=" + PASSWORD, PASSWORD),
    "docker-config": ('{"auths":{"ghcr.io":{"auth":"' + (k := base64.b64encode(f"bot:{PASSWORD}".encode()).decode()) + '"}}}', k),
}  # fmt: skip
SECRETS: dict[str, tuple[str, str]] = {
    name: (text, text) if isinstance(text, str) else text for name, text in _SECRETS.items()
}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def looks_random(random: Random) -> list[str]:
    """Harmless strings of high entropy, 20 of each of 30 sorts, made of what the sorts are made of."""
    return [one for sort in _sorts(random).values() for one in sort]


_PARTS = (
    "ResNet50 ImageNet1k BERTLarge GPT2 Llama3 FP16 BF16 AdamW LoRA R16 Alpha32 Seed42 Cosine H100"
    " A100 FSDP ZeRO3 V2 Exp17 Run003 Ckpt Qwen25 MoE SFT DPO Eval RedPajama ViTB16 Swin EffNetB7"
    " Wav2Vec2 Whisper Pretrained Finetuned Checkpoint Tokenizer Baseline Ablation Warmup Dropout01"
    " Batch256 Context8k Instruct Base Large German English Multilingual Distilled Quantized"
).split()
_SMALL_PARTS = (
    "llama mistral 7b 70b instruct chat gptq awq q4 k m fp8 base large uncased cased finetuned lora"
    " openwebtext cc100 c4 v2 2026 11 bf16 8xh100 lr3e4 bs256 seed42 warmup cosine rope 128k"
).split()


def _joined(random: Random, parts: list[str], between: str, longest: int) -> str:
    word = random.choice(parts)
    while len(word) < longest:
        word += between + random.choice(parts)
    return word


def _sorts(random: Random) -> dict[str, list[str]]:
    def bits(count: int) -> bytes:
        return random.randbytes(count)

    def letters(alphabet: str, count: int) -> str:
        return "".join(random.choices(alphabet, k=count))

    def b64(count: int) -> str:
        return base64.b64encode(bits(count)).decode()

    small, url = string.ascii_lowercase + string.digits, _WORD + "-_"
    kubernetes = "bcdfghjklmnpqrstvwxz2456789"
    make = {
        "git commits": lambda: bits(20).hex(),
        "image digests": lambda: f"ghcr.io/ml/train:1.0@sha256:{bits(32).hex()}",
        "sha256": lambda: hashlib.sha256(bits(8)).hexdigest(),
        "md5": lambda: bits(16).hex(),
        "UUIDs": lambda: str(uuid.UUID(bytes=bits(16))),
        "UUIDs in capitals": lambda: str(uuid.UUID(bytes=bits(16))).upper(),
        "ULIDs": lambda: "01" + letters("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24),
        "Drive files": lambda: "1" + letters(url, 32),
        "Drive documents": lambda: f"https://docs.google.com/spreadsheets/d/1{letters(url, 43)}/edit",
        "old Drive ids": lambda: "0B" + letters(url, 26),
        "names in CamelCase": lambda: _joined(random, _PARTS, "", 36),
        "names with dashes": lambda: _joined(random, _PARTS, "-", 48),
        "names of models": lambda: f"TheBloke/{_joined(random, _PARTS, '-', 20)}-{_joined(random, _SMALL_PARTS, '.', 16)}",
        "names of runs": lambda: _joined(random, _SMALL_PARTS, "_", 60),
        "integrity of subresources": lambda: f"sha384-{b64(48)}",
        "integrity of packages": lambda: f"sha512-{b64(64)}",
        "go.sum": lambda: f"h1:{b64(32)}",
        "fingerprints of keys": lambda: f"SHA256:{b64(32).rstrip('=')}",
        "public keys": lambda: f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64(33)[:43]} ann@laptop",
        "public RSA keys": lambda: f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{b64(300)} ann@laptop",
        "age recipients": lambda: "age1" + letters("qpzry9x8gf2tvdw0s3jn54khce6mua7l", 58),
        "pictures": lambda: f"data:image/png;base64,iVBORw0KGgo{b64(150)}",
        "bare pictures": lambda: f"iVBORw0KGgo{b64(90)}",
        "certificates": lambda: f"-----BEGIN CERTIFICATE-----\nMIID{b64(45)}\n{b64(48)}\n-----END CERTIFICATE-----",
        "names of pods": lambda: f"train-llama-3-{letters(kubernetes, 10)}-worker-0-{letters(kubernetes, 5)}",
        "store paths": lambda: f"/nix/store/{letters(small, 32)}-python3-3.13.1/bin/python",
        "IPFS": lambda: "Qm" + letters("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 44),
        "paths": lambda: f"s3://ml-Data/{_joined(random, _PARTS, '/', 40)}/step_{random.randrange(10**8):08}.pt",
        "data sets": lambda: f"--data=c4-{bits(8).hex()}/{bits(16).hex()}.arrow",
        "ids of GPUs": lambda: f"MIG-{uuid.UUID(bytes=bits(16))}",
        "names of secrets": lambda: f"arn:aws:secretsmanager:eu-west-1:{random.randrange(10**11, 10**12)}:secret:ml/train-{letters(small, 6)}",
        "references": lambda: "TOKEN=${HF_TOKEN:?}",
        "commands": lambda: f"echo {_joined(random, _SMALL_PARTS, '-', 24)} | tee log; PWD=/work/{bits(4).hex()}",
        "base64 of settings": lambda: encoded(json.dumps({"model": random.choice(_PARTS), "lr": 0.1, "epochs": random.randrange(99)})),
    }  # fmt: skip
    return {sort: [one() for _ in range(20)] for sort, one in make.items()}
