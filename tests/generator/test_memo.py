"""A value holds while everything that it was made of is the same."""

from __future__ import annotations

from collections import Counter
from operator import eq
from pathlib import Path

import pytest

from trainwright.files.memo import Cell, Memo, Owner, cell_of, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Edited, Folder


class Sums(Owner):
    """Sums of the lines of files, and how often each was made."""

    def __init__(self, tree: Tracked):
        super().__init__(tree.memo)
        self.tree = tree
        self.made: Counter[str] = Counter()

    @tracked()
    def lines(self, path: str) -> list[str]:
        self.made[f"lines {path}"] += 1
        return self.tree.read(path).decode().split()

    @tracked(same=eq)
    def sum(self, path: str) -> int:
        self.made[f"sum {path}"] += 1
        return sum(map(int, self.lines(path)))

    @tracked()
    def total(self) -> int:
        self.made["total"] += 1
        return sum(self.sum(entry.name) for entry in self.tree.entries("") if entry.kind == "file")

    @tracked()
    def safe(self, path: str) -> int:
        self.made["safe"] += 1
        try:
            return self.sum(path)
        except (OSError, ValueError):
            return -1


@pytest.fixture
def sums(tmp_path: Path) -> Sums:
    (tmp_path / "a").write_text("1 2")
    (tmp_path / "b").write_text("3")
    return Sums(Tracked(Folder(tmp_path)))


def _edit(sums: Sums, path: str, text: str | None) -> None:
    folder = sums.tree.below
    assert isinstance(folder, Folder)
    file = folder.root / path
    if text is None:
        file.unlink()
    else:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    sums.tree.edit([path])


def test_only_what_an_edit_reaches_is_made_again(sums: Sums) -> None:
    assert sums.total() == sums.total() == 6
    assert set(sums.made.values()) == {1}
    _edit(sums, "a", "1 5")
    assert sums.total() == 9
    assert sums.made == {
        "lines a": 2, "sum a": 2, "lines b": 1, "sum b": 1, "total": 2,
    }  # fmt: skip


def test_a_value_that_is_the_same_again_changes_nothing_for_others(sums: Sums) -> None:
    sums.total()
    _edit(sums, "a", "2 1")
    assert sums.total() == 6
    assert sums.made["sum a"] == 2
    assert sums.made["total"] == 1


def test_a_file_that_is_written_as_it_was_outdates_nothing(sums: Sums) -> None:
    sums.total()
    _edit(sums, "a", "1 2")
    cell = cell_of(sums, Sums.total)
    assert cell is not None
    assert cell.is_current


def test_a_file_that_came_or_went_changes_the_list_of_its_folder(sums: Sums) -> None:
    assert sums.total() == 6
    _edit(sums, "c", "4")
    assert sums.total() == 10
    _edit(sums, "a", None)
    assert sums.total() == 7


def test_an_error_is_an_answer_for_what_handles_it(sums: Sums) -> None:
    assert sums.safe("c") == sums.safe("c") == -1
    assert sums.made["safe"] == 1
    _edit(sums, "c", "x")
    assert sums.safe("c") == -1
    _edit(sums, "c", "4")
    assert sums.safe("c") == 4
    _edit(sums, "c", "x")
    assert sums.safe("c") == -1
    with pytest.raises(ValueError, match="x"):
        sums.sum("c")


def test_what_was_forgotten_is_made_again_and_outdates_nothing(sums: Sums) -> None:
    sums.total()
    cell = cell_of(sums, Sums.lines, "a")
    assert cell is not None
    cell.forget()
    assert sums.total() == 6
    assert sums.lines("a") == ["1", "2"]
    assert sums.made["total"] == sums.made["sum a"] == 1


def test_what_is_read_apart_is_not_noted(sums: Sums) -> None:
    def apart() -> int:
        with sums.memo.apart():
            return sums.total()

    cell = Cell(sums.memo, apart)
    assert cell.get() == 6
    _edit(sums, "a", "9")
    assert cell.get() == 6
    cell.drop()
    assert cell.get() == 12


def test_a_value_that_is_put_outdates_what_was_made_of_it() -> None:
    memo = Memo()
    number = Cell(memo, int, eq, 1)
    double = Cell(memo, lambda: [2 * number.get()])
    first = double.get()
    number.put(1)
    assert double.get() is first
    number.put(2)
    assert not double.is_current
    assert double.get() == [4]


def test_a_folder_in_place_of_a_file_is_read_with_all_that_is_in_it(tmp_path: Path) -> None:
    tree = Tracked(Folder(tmp_path))
    (tmp_path / "a").write_text("")
    assert [tree.kind("a"), tree.kind("a/b"), tree.files("a")] == ["file", "", ()]
    (tmp_path / "a").unlink()
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").write_text("x")
    tree.edit(["a"])
    assert [tree.kind("a"), tree.kind("a/b"), tree.files("a")] == ["folder", "file", ("b",)]


def test_a_text_that_is_not_saved_has_a_digest_as_a_file_has(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    tree = Tracked(Edited(Folder(tmp_path), {}))
    before = tree.digest("a")
    tree.edit(["a"], Edited(Folder(tmp_path), {"a": b"y"}))
    assert tree.digest("a") != before
    tree.edit(["a"], Edited(Folder(tmp_path), {"a": b"x\r\n"}))
    (tmp_path / "b").write_text("x\n")
    assert tree.digest("a") == tree.digest("b")
