"""Broken inputs, more than ten thousand each night: exit 0 or 1, and none with a traceback."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from repository import Repository
from trainwright.datatypes.data import Data

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow

CASES_PER_FILE = 5 * settings.default.max_examples
STRUCTURES = 2 * settings.default.max_examples
FILES = (
    "prod/jobs/cifar10-cnn.yaml",
    "prod/jobs/elastic-mnist.yaml",
    "dev/jobs/elastic-mnist.yaml",
    "base/jobs/elastic-mnist.yaml",
    "prod/environment.yaml",
    "defaults.yaml",
)
ALPHABET = b"\x00\t\n\r \"#%&'*+,-./0123456789:;<=>?@ABCXYZ[\\]^_`abcxyz{|}~\x7f\x80\xc3\xa9\xe2\x80\xa8\xf0\x9f\xff"
TOKENS = (
    b"&a ", b"*a", b"<<: ", b"!!python/x ", b"- ", b"? ", b"---\n", b"null", b"{}", b"[]", b"[[[[", b"{{ x }}",
    b"1e999", b"-1", b"0", b"999999999999999999999", b"~", b"../..", b"/etc/passwd", b"\xef\xbb\xbf", b"|\n", b">-\n",
    b"true", b"''", b'"\\ud800"', b"yes", b"0o7", b": ", b"!", b"%YAML 9\n", b"extends: prod/cifar10-cnn\n",
)  # fmt: skip


@pytest.fixture
def shipped(tmp_path: Path) -> Repository:
    ignore = shutil.ignore_patterns("rendered", "staging")
    shutil.copytree(ROOT / "environments", tmp_path / "environments", ignore=ignore)
    for path in (tmp_path / "environments").glob("*/jobs/*.yaml"):
        if path.stem not in ("cifar10-cnn", "elastic-mnist"):
            path.unlink()
    return Repository(tmp_path)


def _assert_survives(repository: Repository, selection: str, what: object) -> None:
    done = repository.run("check", selection, "--no-cache")
    assert done.exit_code in (0, 1), (what, done.output)
    assert "Traceback" not in done.output, what
    if done.exit_code == 1:
        assert "error[TW" in done.stdout


def _mutated(raw: bytes, chance: random.Random) -> bytes:
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            data[at : at + 1] = bytes([chance.choice(ALPHABET)])
        elif kind == 1:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 2:
            del data[at : at + chance.choice((1, 1, 2, 5, 20))]
        elif kind == 3:
            start = chance.randrange(len(data) + 1)
            data[at:at] = data[start : start + chance.randrange(40)]
        elif kind == 4:
            lines = bytes(data).split(b"\n")
            chance.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        else:
            data = data[:at]
    return bytes(data)


@pytest.mark.parametrize("file", FILES)
def test_bytes(file: str, shipped: Repository) -> None:
    path = shipped.root / "environments" / file
    original = path.read_bytes()
    chance = random.Random(file)
    environment = "dev" if file.startswith("dev") else "prod"
    # Of a job's file, the other jobs are the same for each input.
    selection = f"{environment}/{path.stem}" if path.parent.name == "jobs" else environment
    for _ in range(CASES_PER_FILE):
        raw = _mutated(original, chance)
        path.write_bytes(raw)
        _assert_survives(shipped, selection, raw)


_scalar = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["auto", "none", "1Gi", "-1", "1e3", "base/x", "sha256:", "/", "..", "*", "", "a" * 70, "é" * 70])
)  # fmt: skip
_keys = st.sampled_from(
    "name image tag digest repository entrypoint module script argv flags nodes elastic minNodes maxNodes pool "
    "resources cpu memory gpu limits extended shm env secrets volumes claim hostPath path mountPath checkpoint "
    "queue target retries state run labels annotations tolerations affinity security lattice waivers extends".split()
)
_value = st.recursive(
    _scalar,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("file", ["prod/jobs/cifar10-cnn.yaml", "prod/environment.yaml"])
def test_structure(file: str, shipped: Repository) -> None:
    path = shipped.root / "environments" / file
    original = yaml.safe_load(path.read_text())
    settle = settings(
        max_examples=STRUCTURES,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )

    @settle
    @given(
        st.lists(
            st.tuples(_keys | st.sampled_from(sorted(original)), _value), min_size=1, max_size=3
        )
    )
    def survives(changes: list[tuple[str, Data]]) -> None:
        text = yaml.safe_dump({**original, **dict(changes)}, allow_unicode=True)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        _assert_survives(shipped, "prod", text)

    survives()
