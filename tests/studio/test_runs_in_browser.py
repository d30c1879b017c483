"""The views Runs, Run and Train in a real browser: what they show is what the files hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deepcanon.runs.log_lines import log_lines
from tests.studio.made import epoch, make_run, step

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.studio.conftest import Served

pytestmark = pytest.mark.slow

SPIKE = 37.5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four runs of two learning rates and two seeds; one has a spike in one of 400 steps."""
    root = tmp_path / "runs"
    for rate in (0.01, 0.1):
        for seed in (0, 1):
            values = [rate + seed / 10 + 1 / n for n in range(1, 401)]
            if (rate, seed) == (0.1, 1):
                values[222] = SPIKE
            records = [*(step(n, value) for n, value in enumerate(values, 1)), epoch(400, nll=rate, accuracy=1 - rate)]
            make_run(root / f"lr{rate}-{seed}", records, settings={"lr": rate, "seed": seed, "epochs": 8})
    return root


def drawn(page: Page, least: int = 1) -> None:
    """Wait for so many pictures of all curves."""
    page.wait_for_selector(".view-runs[data-drawn]", state="attached")
    while int(page.locator(".view-runs").get_attribute("data-drawn") or 0) < least:
        page.wait_for_timeout(50)


def test_curves_are_read_by_keyboard_and_a_spike_is_seen(
    folder: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve(folder), "#/runs")
    drawn(page)
    page.get_by_role("button", name="numbers").click()
    row = page.locator(".behind tr", has_text="lr0.1-1")
    assert row.locator("td").last.inner_text() == str(SPIKE)
    area = page.locator(".area")
    area.focus()
    area.press("ArrowRight")
    area.press("ArrowRight")
    said = page.locator(".tip").inner_text()
    name, value = said.split("\n")[0], float(said.split(": ")[1].split(" ")[0])
    records = [json.loads(line) for line in (folder / name / "log.jsonl").read_text().splitlines()]
    assert re.search(r"step 2:", said)
    assert value == pytest.approx(records[1]["loss"], rel=1e-3)
    area.press("+")
    page.wait_for_url(re.compile("from="))
    area.press("Escape")
    page.wait_for_url(re.compile(r"^(?!.*from=)"))


def test_other_curves_are_asked_for_ahead_and_forgotten_when_a_log_grows(
    folder: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve(folder), "#/runs")
    asked: list[str] = []
    page.on("requestfinished", lambda request: asked.extend(re.findall(r"/api/curves\?name=([\w.]+)", request.url)))
    page.get_by_role("button", name="numbers").click()
    last = page.locator(".behind tr", has_text="lr0.01-0").locator("td")
    while "grad_norm" not in asked:
        page.wait_for_timeout(50)
    page.get_by_label("Curve", exact=True).select_option("grad_norm")
    page.locator(".view-runs[data-shows=grad_norm]").wait_for(state="attached")
    assert asked.count("grad_norm") == 1
    assert last.all_inner_texts() == ["400", "1", "1", "1"]
    with (folder / "lr0.01-0" / "log.jsonl").open("ab") as log:
        log.write(log_lines([step(401, 0.5, grad_norm=7.25)], 0)[0])
    page.locator(".behind td", has_text="7.25").first.wait_for()
    assert last.all_inner_texts() == ["401", "7.25", "1", "7.25"]
    page.get_by_label("Curve", exact=True).select_option("loss")
    page.locator(".view-runs[data-shows=loss]").wait_for(state="attached")
    assert last.all_inner_texts()[:2] == ["401", "0.5"]


def test_groups_filters_and_differences_are_in_the_address(
    folder: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    served = serve(folder)
    page = page_of(served, "#/runs")
    drawn(page)
    page.get_by_label("Group by").select_option("lr")
    page.locator(".legend li", has_text="lr = 0.01 (2 runs)").wait_for()
    page.get_by_role("button", name="Differences").click()
    table = page.locator("section.view-runs > .card table")
    assert table.locator("tbody th").all_inner_texts() == ["lr", "seed"]
    assert sorted(table.locator("tbody tr").first.locator("td").all_inner_texts()) == ["0.01", "0.01", "0.1", "0.1"]
    page.get_by_label("Find runs by words or settings").fill("seed=1")
    page.get_by_text("2 of 4 runs").wait_for()
    assert "group=lr" in page.url
    assert "find=seed%3D1" in page.url
    address = page.url
    page.goto(f"{served.origin}/#/train")
    page.get_by_role("heading", name="Train a model").wait_for()
    page.goto(address)
    page.get_by_text("2 of 4 runs").wait_for()
    page.locator(".legend li", has_text="lr = 0.1 (1 run)").wait_for()


def test_what_is_seen_is_saved_in_files_that_need_nothing_else(
    folder: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve(folder), "#/runs")
    drawn(page)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save", exact=True).click()
    content = saved.value.path().read_text("utf-8")
    assert saved.value.suggested_filename == "runs.html"
    assert "lr0.1-1" in content
    assert "data:image/png;base64," in content
    assert not re.search(r"<script|<button|src=\"(?!data:)|href=|blob:", content)
    with page.expect_download() as picture:
        page.get_by_role("button", name="PNG").click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")


def test_notes_are_kept_and_seen_in_the_table(
    folder: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve(folder), "#/runs")
    page.get_by_role("link", name="lr0.01-0").click()
    page.get_by_label("Tags").fill("best, thesis")
    page.get_by_label("Note", exact=True).fill("for chapter 3")
    page.get_by_role("button", name="Keep").click()
    page.get_by_text("kept in notes.json").wait_for()
    assert json.loads((folder / "lr0.01-0" / "notes.json").read_text()) == {
        "tags": ["best", "thesis"],
        "note": "for chapter 3",
    }
    page.goto(f"{page.url.partition('#')[0]}#/runs?find=thesis")
    page.get_by_text("1 of 4 runs").wait_for()
    assert page.locator(".tag").all_inner_texts() == ["best", "thesis"]


def test_the_form_refuses_in_the_words_of_the_command_line(
    folder: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve(folder), "#/train?model=mlp", refusals=True)
    page.get_by_label("hidden", exact=True).fill("many")
    page.get_by_role("button", name="Train mlp").click()
    page.locator(".refusal:visible", has_text="--hidden takes").wait_for()
