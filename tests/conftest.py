"""What all tests share: one thread, so that numbers repeat, and pictures only where they are looked at."""

from __future__ import annotations

import os

# NumPy's library of matrices asks for its number of threads once, when it is loaded, and two processes with two
# threads each on two cores wait for each other.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

from collections.abc import Iterator

import matplotlib
import pytest
import torch

matplotlib.use("Agg")
torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _undrawn() -> Iterator[None]:
    """Runs without pictures, which take longer to draw than most models of the tests to train."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deepcanon.pictures.draw_run", lambda *_: [])
        yield


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs with their pictures, for a test that looks at them."""
    from deepcanon.pictures.run_pictures import draw_run

    monkeypatch.setattr("deepcanon.pictures.draw_run", draw_run)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process waits at the end for another's long test."""
    items.sort(key=lambda item: "slow" not in item.keywords)
