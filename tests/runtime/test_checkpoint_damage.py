"""Any damage to the files of a checkpoint is found before anything is loaded from it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hypothesis import assume, given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trainwright_runtime.checkpoint import Checkpoints  # noqa: E402
from trainwright_runtime.checkpoint.digests import difference, digest_of  # noqa: E402
from trainwright_runtime.checkpoint.directory import defect  # noqa: E402

FILES = ("__0_0.distcp", ".metadata", "state.json")
Damage = Callable[[bytes, float, int], bytes]


def state(step: int) -> dict[str, Any]:
    weights = torch.arange(4096, dtype=torch.float32) + step
    return {"weights": weights, "moments": weights.sqrt(), "step": step}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps 1 and 2."""
    folder = tmp_path_factory.mktemp("written")
    with Checkpoints(folder) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, state(step))
    return folder


@contextmanager
def copied(written: Path) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield shutil.copytree(written, Path(folder) / "copy")


def loaded(folder: Path) -> int:
    found = state(0)
    with Checkpoints(folder) as checkpoints:
        step = checkpoints.load(found)
    assert step is not None
    assert found["step"] == step
    assert torch.equal(found["weights"], state(step)["weights"])
    return step


def flip(content: bytes, where: float, bits: int) -> bytes:
    at = int(where * len(content))
    return content[:at] + bytes([content[at] ^ bits]) + content[at + 1 :]


def cut(content: bytes, where: float, _bits: int) -> bytes:
    return content[: int(where * len(content))]


def grow(content: bytes, _where: float, bits: int) -> bytes:
    return content + bytes([bits])


def blank(content: bytes, where: float, _bits: int) -> bytes:
    """What a disk gives for blocks that were never written."""
    return content[: int(where * len(content))].ljust(len(content), b"\0")


def exchange(content: bytes, where: float, _bits: int) -> bytes:
    """Two blocks in each other's place."""
    size = len(content) // 2
    at = int(where * (len(content) - size))
    return content[at : at + size] + content[:at] + content[at + size :]


DAMAGES = [flip, cut, grow, blank, exchange]


@given(
    name=st.sampled_from([*FILES, "list"]),
    damage=st.sampled_from(DAMAGES),
    where=st.floats(0, 1, exclude_max=True),
    bits=st.integers(1, 255),
)
def test_any_damage_is_found(
    written: Path, name: str, damage: Damage, where: float, bits: int
) -> None:
    with copied(written) as folder:
        file = _file(folder, 2, name)
        content = file.read_bytes()
        damaged = damage(content, where, bits)
        # A line break at the end of a list is not needed to read it.
        assume(damaged.rstrip(b"\n") != content.rstrip(b"\n"))
        assert defect(file.parent) is None
        file.write_bytes(damaged)
        assert defect(file.parent) is not None


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_what_is_damaged_is_not_loaded(written: Path, name: str, damage: Damage) -> None:
    with copied(written) as folder:
        file = _file(folder, 2, name)
        file.write_bytes(damage(file.read_bytes(), 0.5, 1))
        assert name in (defect(file.parent) or "")
        assert loaded(folder) == 1


@pytest.mark.parametrize("name", [*FILES, "list"])
def test_a_file_that_is_missing_is_found(written: Path, name: str) -> None:
    with copied(written) as folder:
        _file(folder, 2, name).unlink()
        assert loaded(folder) == 1


@pytest.mark.parametrize("name", ["__0_0.distcp", "state.json", "list"])
def test_a_file_of_another_step_is_found(written: Path, name: str) -> None:
    """Whole, and of the same size."""
    with copied(written) as folder:
        shutil.copyfile(_file(folder, 1, name), _file(folder, 2, name))
        assert loaded(folder) == 1


def _file(folder: Path, step: int, name: str) -> Path:
    (found,) = (folder / f"step-{step:010}").glob("*SUMS" if name == "list" else name)
    return found


def test_two_files_in_each_other_s_place_are_found(written: Path) -> None:
    with copied(written) as folder:
        first, second = (folder / "step-0000000002" / name for name in FILES[::2])
        first.rename(first.with_suffix(".moved"))
        second.rename(first)
        first.with_suffix(".moved").rename(second)
        assert loaded(folder) == 1


def test_what_is_whole_is_loaded(written: Path) -> None:
    assert loaded(written) == 2


def test_digests_are_those_that_xxh128sum_prints(tmp_path: Path) -> None:
    """Those of https://github.com/Cyan4973/xxHash, of nothing."""
    assert digest_of(b"") == "99aa06d3014798d86001c324468d497f"
    path = tmp_path / "file"
    path.write_bytes(b"")
    with path.open("rb") as file:
        assert difference(file, digest_of(b"")) is None
