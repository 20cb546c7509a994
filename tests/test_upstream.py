"""What the tests read of other projects is pinned, and fetched as it is pinned or not at all."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
URL = r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/.+"
SHA = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"  # of "hello world"


@pytest.fixture(scope="module")
def upstream() -> Iterator[ModuleType]:
    spec = spec_from_file_location("fetch_upstream", ROOT / "scripts/fetch_upstream.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look annotations up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_every_file_is_pinned_by_commit_and_content(upstream: ModuleType) -> None:
    files = upstream.locked()
    assert len({file.path for file in files}) == len(files)
    for file in files:
        assert re.fullmatch(URL, file.url), file.url
        assert re.fullmatch("[0-9a-f]{64}", file.sha256), file.path
        assert ".." not in Path(file.path).parts
        assert not Path(file.path).is_absolute()


def test_the_definitions_are_the_pinned_ones(
    upstream: ModuleType, shared: Callable[[str], Path]
) -> None:
    files = upstream.locked()
    folder = shared("crds").parent
    at_hand = [file for file in files if (folder / file.path).exists()]
    wrong = [file.mismatch((folder / file.path).read_bytes()) for file in at_hand]
    assert [message for message in wrong if message] == []
    found = {path.relative_to(folder).as_posix() for path in folder.glob("crds/*/*.yaml")}
    assert found == {file.path for file in at_hand}
    # The one that is nowhere but where it was fetched to.
    assert {file.path for file in files} - found <= {"crds/ray.io/rayjobs.yaml"}


def test_a_file_is_fetched_once_and_filled_in(upstream: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.yaml").write_text("hello {{ .Values.who }}")
    with serving(tmp_path / "there") as url:
        file = upstream.File("x/a.yaml", f"{url}/a.yaml", SHA, {"{{ .Values.who }}": "world"})
        assert upstream.fetch([file], tmp_path / "to", tmp_path / "none") == []
    assert (tmp_path / "to/x/a.yaml").read_text() == "hello world"
    assert upstream.fetch([file], tmp_path / "to", tmp_path / "none") == [], "no server any more"
    assert upstream.fetch([file], tmp_path / "again", tmp_path / "to") == [], "a copy will do"
    assert (tmp_path / "again/x/a.yaml").read_text() == "hello world"


def test_other_content_is_refused_and_never_written(upstream: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there/a.yaml").write_text("hello moon")
    for folder in ("to", "shared"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.yaml").write_text("changed since")
    with serving(tmp_path / "there") as url:
        files = [upstream.File(name, f"{url}/{name}", SHA) for name in ("a.yaml", "b.yaml")]
        first, second = upstream.fetch(files, tmp_path / "to", tmp_path / "shared")
    assert first.startswith(f"a.yaml: expected SHA-256 {SHA}, got ")
    assert first.endswith(f"from {files[0].url}")
    assert "404" in second
    assert (tmp_path / "to/a.yaml").read_text() == "changed since"
    assert not (tmp_path / "to/b.yaml").exists()
