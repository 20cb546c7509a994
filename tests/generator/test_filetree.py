"""Changing a folder so that no moment shows half a file, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import git_repository
from trainwright.datatypes.errors import OutputError
from trainwright.files import filetree
from trainwright.files.filetree import Changes
from trainwright.files.tree import Folder


def _tree(folder: Path) -> dict[str, str]:
    return {path: (folder / path).read_text() for path in filetree.listing(folder)}


def _changes(folder: Path, wanted: dict[str, str], keep: frozenset[str] = frozenset()) -> Changes:
    there = filetree.hashes(folder, filetree.listing(folder))
    return filetree.compare(wanted, there, keep)


def test_applying_makes_the_folder_what_is_wanted(tmp_path: Path) -> None:
    folder = tmp_path / "rendered"
    first = {"a/x.yaml": "1", "a/y.yaml": "2", "list.yaml": "{}"}
    changes = _changes(folder, first)
    assert sorted(changes.added) == sorted(first)
    filetree.apply(folder, changes)
    assert _tree(folder) == first

    second = {"a/x.yaml": "1", "b/z.yaml": "é\n", "list.yaml": "{1}"}
    changes = _changes(folder, second)
    assert (sorted(changes.added), sorted(changes.changed), changes.removed) == (
        ["b/z.yaml"],
        ["list.yaml"],
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
    filetree.apply(tmp_path, _changes(tmp_path, {"list.yaml": "{}", "z/a.yaml": "", "b/c": ""}))
    assert order == ["b/c", "z/a.yaml", "list.yaml"]


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
from trainwright.files import filetree
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


# --- specs that people write ----------------------------------------------------------------------

_EDITOR = """
import os, sys
from pathlib import Path
from trainwright.files import filetree
root, text, kill = Path(sys.argv[1]), sys.argv[2].encode(), sys.argv[3]
replace = Path.replace
def killed(self, target):
    os.kill(os.getpid(), 9)
if kill == "staged":
    Path.replace = killed
paths = [f"specs/{name}.yaml" for name in "abc"]
with filetree.exclusive(root / "specs"):
    before = {path: (root / path).read_bytes() for path in paths}
    filetree.write(root, "specs", dict.fromkeys(paths, text), before)
"""


def _specs(root: Path) -> Path:
    folder = root / "specs"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.yaml").write_text("old")
    return folder


def _edit(root: Path, text: str, kill: str = "") -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _EDITOR, str(root), text, kill])


def test_a_killed_edit_leaves_nothing_among_the_specs(tmp_path: Path) -> None:
    git_repository.init(tmp_path)
    folder = _specs(tmp_path)
    git_repository.commit(tmp_path)
    assert _edit(tmp_path, "new", "staged").wait() == -signal.SIGKILL
    there = {entry.name for entry in Folder(tmp_path).entries("specs")}
    assert there == {"a.yaml", "b.yaml", "c.yaml"}
    assert git_repository.git(tmp_path, "status", "--porcelain", "--untracked-files=all") == ""
    assert _edit(tmp_path, "new").wait() == 0
    assert _tree(folder) == {f"{name}.yaml": "new" for name in "abc"}


def test_edits_at_once_take_turns(tmp_path: Path) -> None:
    folder = _specs(tmp_path)
    editors = [_edit(tmp_path, letter * 100_000) for letter in "ABCD"]
    assert [editor.wait() for editor in editors] == [0] * 4
    assert len(set(_tree(folder).values())) == 1


def test_what_another_program_changed_meanwhile_stays_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    folder = _specs(tmp_path)
    files = {"specs/a.yaml": b"new", "specs/b.yaml": b"new", "specs/new.yaml": b"new"}
    before = {"specs/a.yaml": b"old", "specs/b.yaml": b"old"}
    for path, text in (("b.yaml", "theirs"), ("new.yaml", "theirs")):
        was = _tree(folder)
        (folder / path).write_text(text)
        with pytest.raises(OutputError, match=f"specs/{path} has just changed; try again"):
            filetree.write(tmp_path, "specs", files, before)
        assert _tree(folder) == {**was, path: text}
        (folder / "b.yaml").write_text("old")


def test_permissions_of_an_edited_file_stay(tmp_path: Path) -> None:
    folder = _specs(tmp_path)
    (folder / "a.yaml").chmod(0o600)
    filetree.write(tmp_path, "specs", {"specs/a.yaml": b"new"}, {"specs/a.yaml": b"old"})
    assert (folder / "a.yaml").stat().st_mode & 0o777 == 0o600
    assert (folder / "a.yaml").read_text() == "new"
