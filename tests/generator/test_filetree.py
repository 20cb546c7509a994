"""Changing a folder so that no moment shows half a file, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainwright import filetree
from trainwright.errors import OutputError
from trainwright.filetree import Changes


def _tree(folder: Path) -> dict[str, str]:
    return {path: (folder / path).read_text() for path in filetree.listing(folder)}


def _changes(folder: Path, wanted: dict[str, str], keep: frozenset[str] = frozenset()) -> Changes:
    there = filetree.hashes(folder, filetree.listing(folder))
    return filetree.compare(wanted, there, keep)


def test_applying_makes_the_folder_what_is_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "rendered"
    first = {"a/x.yaml": "1", "a/y.yaml": "2", "index.json": "{}"}
    changes = _changes(folder, first)
    assert sorted(changes.added) == sorted(first)
    filetree.apply(folder, changes)
    assert _tree(folder) == first

    second = {"a/x.yaml": "1", "b/z.yaml": "é\n", "index.json": "{1}"}
    changes = _changes(folder, second)
    assert (sorted(changes.added), sorted(changes.changed), changes.removed) == (
        ["b/z.yaml"],
        ["index.json"],
        ("a/y.yaml",),
    )
    filetree.apply(folder, changes)
    assert _tree(folder) == second
    assert not _changes(folder, second)


def test_folders_that_become_empty_go_away(tmp_path: Path) -> None:
    filetree.apply(tmp_path, _changes(tmp_path, {"a/b/c.yaml": "1", "d.yaml": "2"}))
    filetree.apply(tmp_path, _changes(tmp_path, {"d.yaml": "2"}))
    assert [entry.name for entry in tmp_path.iterdir()] == ["d.yaml"]


def test_kept_files_are_neither_written_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("mine")
    changes = _changes(tmp_path, {"a.yaml": "1"}, frozenset({"other.yaml"}))
    filetree.apply(tmp_path, changes)
    assert _tree(tmp_path) == {"a.yaml": "1", "other.yaml": "mine"}


def test_lists_are_replaced_after_what_they_list(tmp_path: Path, monkeypatch) -> None:
    order: list[str] = []
    replace = Path.replace

    def note(self: Path, target: Path) -> Path:
        order.append(Path(target).relative_to(tmp_path).as_posix())
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", note)
    filetree.apply(tmp_path, _changes(tmp_path, {"index.json": "{}", "z/a.yaml": "", "b/c": ""}))
    assert order == ["b/c", "z/a.yaml", "index.json"]


def test_links_are_never_followed_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.yaml").write_text("precious")
    folder = tmp_path / "rendered"
    folder.mkdir()
    (folder / "a").symlink_to(outside)
    with pytest.raises(OutputError, match="in the way"):
        filetree.apply(folder, Changes({"a/x.yaml": "new"}, {}, ()))
    (folder / "b").mkdir()
    (folder / "b" / "x.yaml").symlink_to(outside / "x.yaml")
    filetree.apply(folder, _changes(folder, {"b/x.yaml": "new"}, frozenset({"a"})))
    assert (outside / "x.yaml").read_text() == "precious"
    assert (folder / "b" / "x.yaml").read_text() == "new"
    assert not (folder / "b" / "x.yaml").is_symlink()


def test_a_file_in_place_of_a_folder_is_one_line_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(OutputError, match="should be a folder"):
        filetree.apply(tmp_path, Changes({"a/x.yaml": "1"}, {}, ()))


_WRITER = """
import sys
from pathlib import Path
from trainwright import filetree
folder, text = Path(sys.argv[1]), sys.argv[2] * 2000
wanted = {f"job{i}/{kind}.yaml": text for i in range(60) for kind in ("values", "pytorchjob")}
there = filetree.hashes(folder, filetree.listing(folder))
print("ready", flush=True)
filetree.apply(folder, filetree.compare(wanted, there, frozenset()))
"""


def test_killed_at_any_instant_every_file_is_whole_and_the_next_run_repairs(tmp_path: Path) -> None:
    folder = tmp_path / "rendered"
    killed = 0
    for attempt in range(12):
        letter = "AB"[attempt % 2]
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder), letter], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.004 * attempt)
        os.kill(process.pid, signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
        contents = set()
        for path in filetree.listing(folder):
            if not path.rpartition("/")[2].startswith(".trainwright-"):
                contents.add((folder / path).read_text())
        assert contents <= {"A" * 2000, "B" * 2000}
    assert killed, "no run was interrupted, so nothing was proved"
    subprocess.run([sys.executable, "-c", _WRITER, str(folder), "C"], check=True)
    tree = _tree(folder)
    assert len(tree) == 120
    assert set(tree.values()) == {"C" * 2000}


def test_a_linked_folder_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "old.yaml").write_text("precious")
    (tmp_path / "rendered").symlink_to(outside)
    with pytest.raises(OutputError, match="in the way"):
        filetree.apply(tmp_path / "rendered", Changes({}, {}, ("old.yaml",)))
    assert (outside / "old.yaml").read_text() == "precious"


def test_two_writers_at_once_take_turns(tmp_path: Path) -> None:
    folder = tmp_path / "rendered"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(folder), letter], stdout=subprocess.PIPE
        )
        for letter in "ABCD"
    ]
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0] * 4
    tree = _tree(folder)
    assert len(tree) == 120
    assert len(set(tree.values())) == 1
