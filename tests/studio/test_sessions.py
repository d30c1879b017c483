"""Sessions of the playground in processes of their own, and the page over them in a real browser."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deepcanon.core import UsageError
from tests.studio.conftest import Served
from tests.studio.test_play import MOONS, repeated

pytest.importorskip("starlette", reason="needs starlette and uvicorn, of deepcanon[studio]")

from deepcanon.studio.play.sessions import Sessions
from deepcanon.studio.unknown import UnknownId

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

WANTED = {"model": "mlp", "arguments": {"hidden": "4"}, "data": MOONS, "settings": {"steps": "400", "seed": "1"}}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder without runs, over which all tests of the page have one studio."""
    return tmp_path_factory.mktemp("playground")


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    opened = Sessions({})
    yield opened
    opened.close()


async def read(session: Any, seconds: float, until: int) -> list[dict[str, Any]]:
    """What a reader gets that pauses after each frame."""
    found = []
    async for frame in session.frames():
        if frame:
            found.append(frame)
        if not frame or frame["kind"] == "over" or frame["step"] >= until:
            return found
        await asyncio.sleep(seconds)
    return found


def apart(reading: Coroutine[Any, Any, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The result of a coroutine, run in a thread of its own: in this one the browser of other tests has its loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, reading).result()


def test_a_slow_reader_loses_frames_and_never_their_order_nor_a_point_of_the_curve(sessions: Sessions) -> None:
    session = sessions.begin(WANTED)
    session.ask({"do": "go", "pace": "run"})
    frames = apart(read(session, 0.4, 400))
    steps = [frame["step"] for frame in frames]
    points = [point for frame in frames for point in frame["curve"]]
    assert steps == sorted(steps)
    assert session.count > len(frames)
    assert points == session.curve
    assert points[-1][0] == 400


def test_a_session_answers_and_its_code_repeats_it(sessions: Sessions) -> None:
    session = sessions.begin(WANTED)
    session.ask({"do": "go", "pace": "step"})
    apart(read(session, 0.0, 1))  # the step is taken
    session.ask({"do": "edit", "parameter": "net.0.weight", "index": [0, 0], "value": 1.5})
    code = session.ask({"do": "code"})["code"]
    assert "= 1.5" in code
    assert repeated(code)["net.0.weight"][0, 0] == 1.5
    with pytest.raises(UsageError, match="no parameter"):
        session.ask({"do": "edit", "parameter": "x", "index": [0], "value": 1.0})
    sessions.end(session.id)
    with pytest.raises(UnknownId):
        sessions.find(session.id)


def test_what_cannot_begin_is_refused_with_its_sentence(sessions: Sessions) -> None:
    with pytest.raises(UsageError, match="too large"):
        sessions.begin({**WANTED, "arguments": {"hidden": "99999"}})


def test_a_training_that_diverges_ends_with_the_trainers_sentence(sessions: Sessions) -> None:
    session = sessions.begin({**WANTED, "model": "realnvp", "arguments": {}, "settings": {"steps": "400", "lr": "1e6"}})
    session.ask({"do": "go", "pace": "run"})
    frames = apart(read(session, 0.0, 400))
    assert frames[-1]["kind"] == "over"
    assert "smaller lr" in frames[-1]["says"]


def test_sessions_begin_where_torch_computes_with_several_threads() -> None:
    code = """
from deepcanon.studio.play.sessions import Sessions

if __name__ == "__main__":
    sessions = Sessions({})
    session = sessions.begin({"model": "mlp", "data": {"set": "moons"}, "arguments": {}, "settings": {"steps": "2"}})
    print(len(sessions.choices({"data": {"set": "moons"}})["models"]), session.begun()["kind"])
    sessions.close()
"""
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "PYTHONPATH": path}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    assert re.fullmatch(r"\d\d+ scene\n", said.stdout)


def test_choices_follow_from_the_contract(sessions: Sessions) -> None:
    labeled, plain, few = (
        {each["name"]: each["group"] for each in sessions.choices({"data": data})["models"]}
        for data in (MOONS, {"set": "eight-gaussians"}, {"set": "moons", "labels": 6})
    )
    assert labeled["mlp"] == "Classifiers"
    assert labeled["conditional_gan"] == "Games of a generator and a discriminator"
    assert plain["realnvp"] == "Flows"
    assert plain["ddpm"] == "Diffusion models"
    assert "mlp" not in plain
    assert few["fixmatch"] == "Semi-supervised methods"
    assert "fixmatch" not in labeled
    assert "rbm" not in plain  # of zeros and ones
    form = sessions.choices({"data": MOONS, "model": "mlp"})["form"]
    assert {field["name"]: field["start"] for field in form["arguments"]}["hidden"] == "8,8"


def pixels(page: Page) -> str:
    return str(page.evaluate("document.querySelector('.plane canvas').toDataURL()"))


def opened(served: Served, page_of: Callable[..., Page], view: str, **look: Any) -> Page:
    page = page_of(served, view, **look)
    page.locator("section[data-state=paused]").wait_for()
    return page


def test_a_training_is_started_paused_edited_and_stopped_in_the_page(
    empty: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = opened(serve_once(empty), page_of, "#/playground?data=moons&model=mlp&a.hidden=4&s.steps=900000&s.seed=2")
    untrained = pixels(page)
    page.get_by_role("button", name="Play").click()
    page.locator("section[data-state=running]").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.locator("section[data-state=paused]").wait_for()
    step = int(page.locator("section.view").get_attribute("data-step") or 0)
    assert 0 < step < 900000
    trained = pixels(page)
    assert trained != untrained
    page.get_by_role("button", name="Step", exact=True).click()
    page.locator(f"section[data-step='{step + 1}']").wait_for()

    page.get_by_role("button", name="Neuron 2 of layer 1").click()
    page.get_by_label("Which weight of this neuron").select_option("0")
    before = pixels(page)
    begun = time.monotonic()
    page.get_by_label("The value of the weight", exact=True).fill("3.5")
    while pixels(page) == before and time.monotonic() < begun + 30:
        page.wait_for_timeout(20)
    assert pixels(page) != before

    page.get_by_role("button", name="Show me the code").click()
    page.locator("pre.code:visible").wait_for()
    code = page.locator("pre.code").inner_text()
    weights = repeated(code)
    assert float(weights["net.0.weight"][1, 0]) == 3.5
    page.get_by_label("Which weight of this neuron").select_option("1")
    shown = float(page.get_by_label("The value of the weight, as a number").input_value())
    assert shown == pytest.approx(float(weights["net.0.weight"][1, 1]), rel=1e-3)
    page.get_by_role("button", name="Stop").click()
    page.locator("section[data-state=stopped]").wait_for()


def test_points_are_drawn_by_hand_and_trained_on(
    empty: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = opened(serve_once(empty), page_of, "#/playground")
    page.get_by_role("radio", name="draw").click()
    page.locator("figcaption", has_text="Press and drag").wait_for()
    box = page.locator(".plane canvas").bounding_box()
    assert box is not None
    for pen, share in ((1, 0.3), (2, 0.7)):
        page.get_by_role("radio", name=f"Pen of class {pen}").click()
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.3 * box["height"])
        page.mouse.down()
        page.mouse.move(box["x"] + share * box["width"], box["y"] + 0.7 * box["height"], steps=12)
        page.mouse.up()
    page.locator("section[data-state=paused]").wait_for()
    page.locator("#play-model option", has_text="Multilayer perceptron").first.wait_for(state="attached")
    assert re.search(r"points=[\d*_.-]+", page.url)
    page.get_by_role("button", name="Step", exact=True).click()
    page.locator("section[data-step='1']").wait_for()


def test_a_step_that_is_asked_for_before_the_session_is_there_is_one_step_of_it(
    empty: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = page_of(serve_once(empty), "#/playground?data=moons&model=mlp&a.hidden=4")
    page.get_by_role("button", name="Step", exact=True).click()  # the library is still being asked what there is
    page.locator("section[data-step='1'][data-state=paused]").wait_for()


def test_a_gan_is_seen_turn_by_turn(
    empty: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = opened(serve_once(empty), page_of, "#/playground?data=eight-gaussians&model=gan&a.hidden=16", phone=True)
    for player in ("discriminator", "generator"):
        page.get_by_role("button", name="Turn", exact=True).click()
        page.locator(".count", has_text=f"after the {player}'s turn").wait_for()
    assert "pushes it" in page.locator(".middle figcaption").inner_text()
    wide, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= room


def test_few_labels_offer_the_methods_that_learn_from_them(
    empty: Path, serve_once: Callable[[Path], Served], page_of: Callable[..., Page]
) -> None:
    page = opened(serve_once(empty), page_of, "#/playground?data=moons&model=mlp&a.hidden=4")
    assert page.locator("option[value=fixmatch]").count() == 0
    page.get_by_role("checkbox", name="only a few labels").check()
    page.locator("option[value=fixmatch]").first.wait_for(state="attached")
    page.locator(".middle figcaption", has_text="Large points have labels").wait_for()
