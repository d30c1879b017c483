"""The studio in a real browser: every view opens, shows the numbers of the files, and lives through a crash."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core.files import seal
from tests.studio.conftest import PATIENCE, Served, settled

if TYPE_CHECKING:
    from playwright.sync_api import Page

VIEWS = sorted(path.stem for path in Path(dc.__file__ or "").with_name("studio").joinpath("page", "views").glob("*.js"))

pytestmark = pytest.mark.slow


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found


def read(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace("\N{MINUS SIGN}", "-").replace(",", "").replace("\N{NARROW NO-BREAK SPACE}", ""))


def eventually(happens: Callable[[], Any]) -> Any:
    """What happens, as soon as it does."""
    until = time.monotonic() + PATIENCE / 1000
    while not (found := happens()) and time.monotonic() < until:
        time.sleep(0.02)
    assert found
    return found


def test_every_view_opens_light_dark_and_on_a_phone(
    runs: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    served = serve_once(runs)
    some = next(iter(served.studio.runs()))
    page = page_of(served)
    for view in VIEWS:
        page.goto(f"{served.origin}/#/{view}?id={some}")
        page.locator(f"section.view-{view}").wait_for()
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            settled(page)
            assert page.locator(".refusal:visible").all_text_contents() == [], view
            wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert room == width
            assert wide <= room, f"{view} is {wide} pixels wide and has {room}"
            assert page.locator("h1").count() >= 1, f"{view} has no heading"


def test_the_token_leaves_the_address_and_other_tabs_have_none(
    runs: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve_once(runs))
    assert "token" not in page.url
    assert "token" not in page.evaluate("document.referrer + document.cookie + JSON.stringify(localStorage)")


def test_the_numbers_of_the_table_and_of_a_run_are_those_of_the_files(
    runs: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve_once(runs), "#/runs")
    page.get_by_role("link", name="mlp-0", exact=True).wait_for()
    head = page.locator(".runs-list thead th").all_text_contents()
    names = [re.sub(r"[^\w -].*", "", name).strip() for name in head]
    for seed in (0, 1):
        line = page.locator(".runs-list tbody tr", has=page.get_by_role("link", name=f"mlp-{seed}", exact=True))
        cells = line.locator("td").all_text_contents()
        info = results(runs / f"mlp-{seed}")
        shown = dict(zip(names, cells, strict=True))
        last = [json.loads(each) for each in (runs / f"mlp-{seed}" / "log.jsonl").read_text().splitlines()]
        loss = [record["loss"] for record in last if record["kind"] == "step"][-1]
        assert read(shown["accuracy"]) == pytest.approx(info["results"]["test"]["accuracy"], rel=1e-3)
        assert read(shown["loss"]) == pytest.approx(loss, rel=1e-3)
        assert line.locator(".badge").all_text_contents() == ["finished"]
        assert shown["status"].endswith("epoch 3 of 3")
    page.get_by_role("link", name="mlp-0", exact=True).click()
    page.locator("section.view-run table").first.wait_for()
    info = results(runs / "mlp-0")["results"]
    for name, value in info["test"].items():
        row = page.locator(
            "section.view-run tr", has=page.get_by_role("rowheader", name=name.replace("_", " "), exact=True)
        )
        assert read(row.locator("td").last.inner_text()) == pytest.approx(value, rel=1e-3), name
    page.go_back()
    page.locator("section.view-runs").wait_for()


def test_a_run_that_is_killed_while_watched_can_be_resumed_from_the_page_and_ends_with_the_same_bits(
    tmp_path: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    words = ["train", "mlp", "--data", "digits", "--hidden", "64", "--steps", "600", "--checkpoint-every", "100"]
    words += ["--no-pictures", "--threads", "1", "--seed", "5"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    folder = tmp_path / "runs"
    folder.mkdir()
    served = serve(folder)
    page = page_of(served, "#/runs")
    command = [sys.executable, "-m", "deepcanon", *words, "--out", str(folder / "watched")]
    training = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    line = page.locator(".runs-list tbody tr", has=page.get_by_role("link", name="watched", exact=True))
    eventually(lambda: list((folder / "watched" / "checkpoints").glob("*100*")))
    os.kill(training.pid, signal.SIGSTOP)  # until the page has seen it, however short it is
    line.locator(".badge.running").wait_for()
    os.kill(training.pid, signal.SIGKILL)
    training.wait()
    line.locator(".badge.interrupted").wait_for()
    line.get_by_role("button", name="Resume").click()
    resumed_by = eventually(lambda: next((row["process"] for row in served.studio.live.rows()[1]), None))
    os.kill(resumed_by, signal.SIGSTOP)
    line.locator(".badge.running").wait_for()
    os.kill(resumed_by, signal.SIGCONT)
    line.locator(".badge.finished").wait_for(timeout=4 * PATIENCE)  # a process of its own
    whole = dc.Run.train(
        "mlp:hidden=64", "digits", out=tmp_path / "whole", steps=600, checkpoint_every=100, seed=5, quiet=True,
        pictures=False,
    )  # fmt: skip
    resumed = dc.load(folder / "watched").state_dict()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed[name]), name
    log = [json.loads(each) for each in (folder / "watched" / "log.jsonl").read_text().splitlines()]
    loss = [record["loss"] for record in log if record["kind"] == "step"][-1]
    head = page.locator(".runs-list thead th").all_text_contents()
    place = next(n for n, name in enumerate(head) if name.startswith("loss"))
    settled(page)
    assert read(line.locator("td").nth(place).inner_text()) == pytest.approx(loss, rel=1e-3)


def test_script_in_the_names_of_runs_tags_and_notes_is_text(
    runs: Path, tmp_path: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    evil = '<img src=x onerror="alert(1)">'
    folder = tmp_path / "runs"
    shutil.copytree(runs / "mlp-0", folder / evil.replace("/", ""))
    info = results(folder / evil)
    del info["seal"]
    info["data"]["name"] = info["results"]["says"][0] = info["data"]["labels"][0] = evil
    (folder / evil / "run.json").write_bytes(seal(info))
    served = serve(folder)
    page = page_of(served, "#/runs", refusals=True)  # there are no data of this name
    page.get_by_role("link", name=evil, exact=True).click()
    page.locator("section.view-run textarea").fill(evil)
    page.get_by_role("textbox", name="Tags").fill(evil)
    page.get_by_role("button", name="Keep").click()
    page.get_by_text("kept in notes.json").wait_for()
    some = next(iter(served.studio.runs()))
    for view in VIEWS:
        page.goto(f"{served.origin}/#/{view}?id={some}&find={evil}&group={evil}")
        page.locator(f"section.view-{view}").wait_for()
        settled(page)
        assert page.locator("img[src=x]").count() == 0
