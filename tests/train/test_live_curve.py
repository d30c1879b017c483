"""The live curve: one display of a notebook, replaced at a bounded rate, and nothing anywhere else."""

from __future__ import annotations

import re
import sys
import types
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.train import live_curve
from deepcanon.train.live_curve import Course, curve_of
from deepcanon.train.progress import Bar, Lines, progress


class Display:
    """What a notebook's display was given, in order."""

    def __init__(self) -> None:
        self.begun = 0
        self.shown: list[Course] = []

    def __call__(self, course: Course, *, display_id: bool) -> Display:
        assert display_id
        self.begun += 1
        self.update(course)
        return self

    def update(self, course: Course) -> None:
        course._repr_html_()  # drawn at once, as a kernel does
        self.shown.append(course)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    """A process that takes itself for the kernel of a notebook."""
    display = Display()
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    return display


def trained(**settings: Any) -> dc.Result:
    torch.manual_seed(0)
    return dc.fit(dc.models.MLP(64, 10), dc.load_data("digits"), **{"epochs": 2, "seed": 0, **settings})


def test_a_training_in_a_notebook_is_one_display_with_the_whole_curve_at_its_end(notebook: Display) -> None:
    result = trained()
    assert notebook.begun == 1
    assert f"step {result.steps:,} of {result.steps:,}" in repr(notebook.shown[-1])
    steps = [record for record in result.history if record["kind"] == "step"]
    html = notebook.shown[-1]._repr_html_()
    line = re.search(r'<polyline points="([^"]+)"', html)
    assert line is not None
    assert len(line[1].split()) == len(steps)
    assert "validation loss" in html


@pytest.mark.slow
def test_the_display_takes_a_bounded_part_of_the_time(notebook: Display, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("deepcanon.train.live_curve.time.monotonic", lambda: clock[0])

    def slowly(display: Display, course: Course) -> None:
        display.shown.append(course)
        step(clock, 0.1)

    monkeypatch.setattr(Display, "update", slowly)

    class Slow(dc.Observer):
        def step(self, trainer: Any, terms: Any) -> None:
            step(clock, 0.1)

    result = trained(observers=[Slow()], epochs=30)  # 300 steps of 0.1 s, and every drawing takes a tenth of a second
    assert 3 <= len(notebook.shown) <= 2 + 30 * live_curve._SHARE / 0.1 * 1.1
    assert result.steps == 300


def step(clock: list[float], seconds: float) -> None:
    clock[0] += seconds


def test_a_training_ends_with_the_same_bits_as_without_a_display(notebook: Display) -> None:
    seen, unseen = trained(), trained(quiet=True)
    assert notebook.begun == 1
    for name, value in seen.model.state_dict().items():
        assert torch.equal(value, unseen.model.state_dict()[name])


def test_outside_a_notebook_nothing_is_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    log = types.SimpleNamespace()
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(progress(log), Lines)  # type: ignore[arg-type]
    terminal = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace())  # ipython in a terminal has no kernel
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert isinstance(progress(log), Bar | Lines)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: None))
    assert isinstance(progress(log), Lines)  # type: ignore[arg-type]


def test_terms_have_curves_of_their_own_and_what_is_not_finite_is_left_out() -> None:
    history = [
        {"kind": "step", "step": 1, "loss": 3.0, "terms": {"<b>": 1.0, "kl": 2.0}},
        {"kind": "step", "step": 2, "loss": None, "terms": {"<b>": None, "kl": 1.5}},
        {"kind": "picture", "step": 2, "name": "samples"},
        {"kind": "epoch", "step": 2, "valid": {"loss": 2.5, "accuracy": 0.5}},
    ]
    html = curve_of(history)
    assert html.count("<polyline") == 4
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "nan" not in html
    assert curve_of([]) == ""
