"""The page of a run in a browser: where its time went, what happened, and nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from opened_page import Opened, Visit
from trainwright_runtime.observe.journal import Event, Record, Steps, encode
from trainwright_runtime.report import main

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

START = 1_700_000_000.0
ATTACK = '"><img src=x onerror=alert(1)><script>alert(2)</script>\u202e</td>'


def steps(at: float, last: int) -> Steps:
    return Steps(
        time=START + at, step=last, steps=10, samples=640, seconds=0.8, data_wait=0.1,
        slowest=0.12, world_size=2,
    )  # fmt: skip


def event(at: float, name: str, **fields: str | float) -> Event:
    return Event(time=START + at, name=name, fields=fields)


def killed(late: float) -> list[Record]:
    """Ten seconds with two checkpoints, a kill, and the rest after a restart from the first."""
    return [
        event(late, "start"),
        *(steps(late + at, 10 * at) for at in range(1, 6)),
        event(late + 5, "checkpoint", stall=0.25),
        event(late + 5.2, "saved", step=50, seconds=0.2, bytes=10),
        *(steps(late + at, 10 * at) for at in range(6, 11)),
        event(late + 10, "checkpoint", stall=0.25),
        event(late + 15, "restart"),
        *(steps(late + 15 + at, 50 + 10 * at) for at in range(1, 6)),
        event(late + 20, "end"),
    ]


Open = Callable[..., Opened]


@pytest.fixture
def opened(open_at: Visit, tmp_path: Path) -> Open:
    """Opens the page of workers, given by their names and records."""

    def opening(workers: dict[str, Sequence[Record]], *options: str, **media: object) -> Opened:
        folder = tmp_path / "llm-1a2b3c4d"
        folder.mkdir()
        for name, records in workers.items():
            (folder / f"{name}.jsonl").write_bytes(b"".join(map(encode, records)))
        page = tmp_path / "run.html"
        assert main([str(folder), "-o", str(page), *options]) == 0
        return open_at(page.as_uri(), "main", **media)

    return opening


def rows(opened: Opened, section: str) -> list[list[str]]:
    found = opened.page.locator(f"section[aria-labelledby={section}] tbody tr").all()
    return [[cell.strip() for cell in row.inner_text().split("\t")] for row in found]


def test_a_run_with_a_kill(opened: Open) -> None:
    shown = opened({"rank-0": killed(0), "rank-1": killed(0.5)})
    page = shown.page
    assert page.locator("h1").inner_text() == "llm-1a2b3c4d: goodput 0.400, ETTR 0.400"
    assert [(part, share) for part, share, *_ in rows(shown, "goodput")] == [
        ("scheduling", "25.0%"), ("start", "0.5%"), ("recovery", "20.5%"), ("checkpoint", "2.5%"),
        ("stall", "7.5%"), ("training", "40.0%"), ("other", "4.0%"),
    ]  # fmt: skip
    assert rows(shown, "timeline") == [
        ["0 ms", "500 ms", "start (2)", "rank-0, rank-1", ""],
        ["5 s", "10 s", "checkpoint (3)", "rank-0, rank-1", "3 stalls of 750 ms, 250 ms at worst, 2 on the disk, the last of step 50"],
        ["10 s", "10.5 s", "killed (2)", "rank-0, rank-1", ""],
        ["10.5 s", "", "checkpoint", "rank-1", "1 stall of 250 ms"],
        ["15 s", "15.5 s", "restart (2)", "rank-0, rank-1", ""],
        ["20 s", "20.5 s", "end (2)", "rank-0, rank-1", ""],
    ]  # fmt: skip
    assert rows(shown, "attempts") == [
        ["rank-0", "1", "0 ms", "10 s", "1 to 100", "killed"],
        ["rank-0", "2", "15 s", "20 s", "51 to 100", "ended"],
        ["rank-1", "1", "500 ms", "10.5 s", "1 to 100", "killed"],
        ["rank-1", "2", "15.5 s", "20.5 s", "51 to 100", "ended"],
    ]
    assert page.evaluate("document.querySelector('img').naturalWidth") == 2400
    shown.assert_quiet()


def test_hostile_text_is_text(opened: Open) -> None:
    records = [
        event(0, "start"),
        steps(1, 10),
        event(1, ATTACK, **{ATTACK: ATTACK}),
        event(2, "failure", cause=ATTACK, error="password=hunter2hunter2", node=ATTACK),
        event(3, "stop", reason=ATTACK),
    ]
    shown = opened({"rank-0": records}, f"--run={ATTACK}")
    page = shown.page
    page.on("dialog", lambda dialog: shown.printed.append(dialog.message))
    assert page.locator("img, iframe, script").count() == 1  # the picture
    text = page.locator("body").inner_text()
    assert "<script>alert(2)</script>" in text
    assert "\u202e" not in text
    assert "hunter2" not in text
    shown.assert_quiet()


def test_no_script_runs(opened: Open, tmp_path: Path) -> None:
    """Even where text came in as markup, the policy would stop it."""
    shown = opened({"rank-0": killed(0)})
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    attack = '<script>document.title = 1</script><b id="b" onclick="document.title = 2">'
    (tmp_path / "run.html").write_text(text.replace("<main", f"{attack}<main", 1), encoding="utf-8")
    shown.page.reload()
    shown.page.locator("main").wait_for()
    shown.page.evaluate("document.getElementById('b').click()")
    assert shown.page.title().startswith("llm-1a2b3c4d")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_anybody_can_read_it(opened: Open, scheme: str) -> None:
    result = axe.Axe().run(opened({"rank-0": killed(0)}, color_scheme=scheme).page)
    assert result.violations_count == 0, result.generate_report()


def test_the_same_files_are_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "rank-0.jsonl").write_bytes(b"".join(map(encode, killed(0))))
    pages = []
    for _ in range(2):
        assert main([str(tmp_path), "-o", str(tmp_path / "run.html")]) == 0
        pages.append((tmp_path / "run.html").read_bytes())
    assert pages[0] == pages[1]
