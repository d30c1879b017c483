"""What all tests share: one thread, so that numbers repeat, and pictures only where they are looked at."""

from __future__ import annotations

import gc
import os
import shutil

# NumPy's library of matrices asks for its number of threads once, when it is loaded, and two processes with two
# threads each on two cores wait for each other.
os.environ.pop("COLUMNS", None)  # which pytest-xdist sets, as if there were a terminal
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import matplotlib
import pytest
import torch
from typer.main import get_command

from deepcanon.data.sets import dates, scenes, stories

if TYPE_CHECKING:
    from playwright.sync_api import Browser

hypothesis.settings.register_profile("repeatable", derandomize=True)  # a test fails for everyone, or for no one
hypothesis.settings.load_profile("repeatable")
matplotlib.use("Agg")
gc.disable()  # what is imported and collected stays: looking for garbage in it would take almost as long again
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _undrawn() -> Iterator[None]:
    """Runs without pictures, which take longer to draw than most models of the tests to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepcanon.pictures.draw_run", lambda *_: [])
        yield


@pytest.fixture(scope="session", autouse=True)
def _unsynced() -> Iterator[None]:
    """Files left to the system to write: processes are killed here, not the machine, and disks take their time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _judged_fast() -> Iterator[None]:
    """Samples told from data by a few trees, which else take longer in a comparison than its models to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepcanon.comparison.quality.TREES", 10)
        yield


@pytest.fixture(scope="session", autouse=True)
def _made_once() -> Iterator[None]:
    """The data that take longest to make, made once: a split is known by the size and the seed, which come last."""

    def once(make: Callable[..., Any]) -> Callable[..., Any]:
        made: dict[tuple[Any, ...], Any] = {}

        def known(*arguments: Any) -> Any:
            key = arguments[-2:]
            if key not in made:
                made[key] = make(*arguments)
            return made[key]

        return known

    with pytest.MonkeyPatch.context() as patch:
        for sets, function in ((dates, "pairs"), (scenes, "scenes"), (stories, "stories")):
            patch.setattr(sets, function, once(getattr(sets, function)))
        yield


@pytest.fixture(scope="session", autouse=True)
def _built_once() -> Iterator[None]:
    """The command line made once from its functions, which takes as long as many a call of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def _seeded_fast() -> Iterator[None]:
    """Seeds of the one device that is there; for each one that might be, torch would write down the whole stack."""
    with pytest.MonkeyPatch.context() as patch:
        if not torch.accelerator.is_available():
            patch.setattr("torch.manual_seed", torch.default_generator.manual_seed)
        yield


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with their pictures, for a test that looks at them."""
    from deepcanon.pictures.run_pictures import draw_run

    monkeypatch.setattr("deepcanon.pictures.draw_run", draw_run)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of this machine; two that are driven at once would be in each other's loop of events."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, of deepcanon[browser]")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path)
        yield opened
        opened.close()


CONTRACT = Path(__file__).with_name("test_contract.py")
"""The file of tests that takes longest."""
TRAININGS = (*(Path(__file__).with_name(name) for name in ("models", "methods")), CONTRACT)
"""The tests that train models until they are good, or hold the slowest ones to their laws."""


def pytest_collection_finish() -> None:
    """From here on there is garbage to collect, but not among what is there already."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process waits at the end for another's long test.

    Long trainings are left out of the coverage, which they hardly add to: being traced, they take half as long again.
    """
    items.sort(key=lambda item: ("slow" not in item.keywords, item.path != CONTRACT))
    for item in items:
        if "slow" in item.keywords and any(item.path.is_relative_to(path) for path in TRAININGS):
            item.add_marker("no_cover")
