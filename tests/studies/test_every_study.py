"""What holds of every study: sentences and figure follow from the numbers, and the figure can be read."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from deepcanon import catalogue, study
from deepcanon.core.files import as_json
from deepcanon.core.finding import Finding
from deepcanon.pictures.legibility import faults
from deepcanon.questions import options_of

TINY: dict[str, dict[str, Any]] = {
    "accelerated_descent": {"steps": 40, "dimensions": 30},
    "activations": {"epochs": 1, "seeds": 2, "width": 8, "depth": 2},
    "anomalies": {"series": 40, "length": 50, "steps": 5, "seeds": 2},
    "attention_cost": {"lengths": (32, 64), "widths": (8, 16)},
    "batch_growth": {"stages": 2, "stage": 1, "seeds": 2, "rates": (0.1,), "hidden": 4},
    "bias_variance": {"datasets": 20, "degrees": (0, 3, 8), "widths": (1, 3), "networks": 3, "steps": 20},
    "code_clusters": {"latent": 3, "hidden": 8, "steps": 5, "seeds": 2},
    "convolution_to_attention": {"length": 8, "width": 4, "reach": 2},
    "density_distillation": {"epochs": 1, "steps": 3},
    "depth_and_width": {
        "deepest": 4, "parameters": 31, "depths": (1, 2), "folds": 2, "epochs": 10, "repeats": 2
    },
    "double_descent": {
        "examples": 12, "features": 20, "draws": 20, "training": 40, "counts": (10, 40, 80), "seeds": 3
    },
    "epochwise_double_descent": {
        "steps": 50, "draws": 4, "training": 40, "hidden": 8, "epochs": 3, "seeds": 2
    },
    "exposure_bias": {"vocab": 3, "length": 6, "units": 4, "steps": 5, "seeds": 2},
    "flow_targets": {"lengths": (1, 2), "steps": 3, "points": 24},
    "games": {"steps": 3, "seeds": 2, "distances": (0.5, 2.0)},
    "gradient_estimators": {"draws": 1000},
    "gradient_noise": {"hidden": 4, "examples": 64, "few": 4, "draws": 50, "steps": 5},
    "guidance": {"steps": 3, "weights": (0.0, 2.0)},
    "initialization": {"epochs": 1, "seeds": 2, "width": 8, "depth": 2},
    "latent_space": {"latent": 2, "hidden": 8, "steps": 5, "samples": 20, "seeds": 2},
    "learning_slowdown": {"steps": 40},
    "lottery": {"hidden": 8, "kept_shares": (0.5, 0.2), "seeds": 2, "steps": 5},
    "memory_length": {"delays": (3,), "units": 8, "steps": 5, "seeds": 2},
    "noise_and_divergence": {"times": 3, "points": 2001},
    "normalization": {},
    "optimizers": {"names": ("sgd", "adam"), "steps": 30, "starts": 3, "tolerance": 0.9},
    "phase_transition": {"sides": (4, 12), "temperatures": 3, "lattices": 2, "sweeps": 4},
    "posterior_collapse": {"betas": (0.5, 2.0), "latent": 3, "hidden": 8, "steps": 5, "seeds": 2},
    "pretraining": {"labels": (8, 12), "steps": 2, "tuning": 2, "seeds": 2},
    "residuals": {"depths": (2, 3), "width": 8, "epochs": 1, "seeds": 2},
    "sharpness": {"depth": 2, "width": 8, "steps": 20, "examples": 32, "points": 5, "lines": 2, "seeds": 2},
    "shattered_gradients": {"depths": (1, 3), "width": 16, "nets": 3, "points": 16},
    "zero_centered_units": {"units": (1, 3), "examples": 200, "norms": (1.0, 20.0)},
}  # fmt: skip
"""Options with which a study takes a moment."""
LONGER = (
    "activations", "anomalies", "batch_growth", "bias_variance", "density_distillation", "games", "guidance",
    "initialization", "latent_space", "memory_length", "exposure_bias", "pretraining", "residuals", "sharpness",
)  # fmt: skip
NAMES = [
    pytest.param(entry.name, id=entry.name, marks=[pytest.mark.slow] if entry.name in LONGER else [])
    for entry in catalogue.questions("study")
]


def test_every_study_is_looked_at() -> None:
    assert sorted(TINY) == sorted(entry.name for entry in catalogue.questions("study"))


@cache
def found(name: str) -> Finding:
    return study(name, **TINY[name])


def module(name: str) -> Any:
    return importlib.import_module(f"deepcanon.studies.{name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_sentences_and_figure_follow_from_the_numbers_of_the_file(name: str) -> None:
    finding, own = found(name), module(name)
    assert [*inspect.signature(own.sentences).parameters] == ["numbers"]
    assert [*inspect.signature(own.draw).parameters] == ["numbers"]
    written = json.loads(json.dumps(as_json(finding.numbers), allow_nan=False))
    assert own.sentences(written) == finding.says
    assert words(finding.figure.get_suptitle()) == words(finding.says[0]), "the headline is the first sentence"
    again = own.draw(written)
    assert texts(again) == [text for text in texts(finding.figure) if text not in headings(finding)]


@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_is_the_same_whatever_was_measured(name: str) -> None:
    """A sentence that no number changes claims what was not measured; numerals in it must not survive other numbers."""
    finding, own = found(name), module(name)
    constant = set(finding.says)
    for seed in range(4):
        constant &= set(own.sentences(disturbed(finding.numbers, seed)))
    assert not constant


@pytest.mark.parametrize("name", NAMES)
def test_the_figure_says_its_settings(name: str) -> None:
    finding = found(name)
    shown = words(finding.figure.get_supxlabel())
    assert shown == words(finding.numbers["settings"])
    function = catalogue.find_question("study", name)
    for option, parameter in options_of(function).items():
        value = TINY[name].get(option, parameter.default)
        ends = [value[0], value[-1]] if isinstance(value, tuple) and value else [value]
        for end in ends if option != "seed" and value != () else []:
            assert (f"{end:g}" if isinstance(end, float) else str(end)) in shown, option


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_figure_can_be_read(name: str) -> None:
    assert faults(found(name).figure) == []


def words(text: str) -> str:
    return " ".join(text.split())


def headings(finding: Finding) -> list[str]:
    return [words(finding.says[0]), words(finding.numbers["settings"])]


def texts(figure: Any) -> list[str]:
    """All words of a figure but numbers at its axes."""
    from matplotlib.text import Text

    shown = [words(each.get_text()) for each in figure.findobj(Text)]
    return sorted(each for each in shown if re.search("[a-z]{2}", each))


def disturbed(numbers: Any, seed: int) -> Any:
    """The same numbers, of which some are multiplied and the rest of the structure is kept."""

    def change(value: Any, counted: bool = False) -> Any:
        draw = random.Random(f"{seed} {value}")  # what was equal stays equal
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        if isinstance(value, list):
            if value and all(isinstance(item, str) for item in value):
                return value[: draw.randrange(len(value) + 1)] or value
            return [change(item, counted=True) for item in value]
        if counted and isinstance(value, int):
            return value + draw.randrange(1, 4)
        return value * draw.uniform(0.2, 0.9) if isinstance(value, float) else value

    return change(copy.deepcopy(dict(numbers)))


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    yield
    found.cache_clear()
