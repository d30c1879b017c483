"""Data that do not suit a model are refused in its own words, and left to itself a model gets data that do."""

from __future__ import annotations

from typing import Any, Literal, Self

import pytest
import torch
from torch import nn

from deepcanon import catalogue
from deepcanon.core import AnyBatch, Blueprint, GraphBatch, Labeled, Model, Sequences, Terms, UsageError
from deepcanon.core.turn import B
from deepcanon.data import from_tensors, load_data
from deepcanon.data.suits import check_suits, default_data, mismatch


class Of(Model[B]):
    """A model of any batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    @classmethod
    def example(cls) -> tuple[Self, B]:
        raise NotImplementedError

    def loss(self, batch: AnyBatch) -> Terms:
        return {"loss": self.weight.square()}


class Wraps(Of[B]):
    """A method around a model."""

    def __init__(self, model: Model[Any]) -> None:
        super().__init__()


class Graphs(Of[GraphBatch]):
    pass


class Texts(Of[Sequences]):
    def __init__(self, vocab: int) -> None:
        super().__init__()


class Regression(Of[Labeled]):
    def __init__(self, features: int, targets: int) -> None:
        super().__init__()


class Volumes(Of[Labeled]):
    def __init__(self, features: int, ratings: int) -> None:
        super().__init__()


class Halves(Of[Labeled]):
    def __init__(self, features: int, classes: Literal[2] = 2) -> None:
        super().__init__()


MLP, SOFTMAX, VAE = (catalogue.find(name) for name in ("mlp", "softmax_regression", "vae"))
NUMBERS = from_tensors(torch.zeros(6, 2), torch.rand(6), name="houses")


@pytest.mark.parametrize(
    ("cls", "data", "sentence"),
    [
        (Graphs, "digits", "Graphs learns from a graph with classes of nodes; digits gives images"),
        (Texts, "karate", "Texts learns from sequences; karate gives a graph"),
        (MLP, "text", "mlp learns from labeled examples; text gives text without labels"),
        (MLP, "eight-gaussians", "mlp learns from labeled examples; eight-gaussians gives points without labels"),
        (VAE, "karate", "vae learns from examples; karate gives a graph"),
        (Regression, "moons", "Regression learns numbers; moons gives classes"),
        (Volumes, "moons", "Volumes needs ratings, which moons does not have"),
        (Halves, "digits", "Halves learns from 2 classes; digits has 10"),
    ],
)
def test_a_mismatch_is_said_in_the_words_of_model_and_data(cls: type[Model[Any]], data: str, sentence: str) -> None:
    assert mismatch(cls, load_data(data)) == sentence


def test_numbers_do_not_suit_a_classifier() -> None:
    assert mismatch(SOFTMAX, NUMBERS) == "softmax_regression learns classes; houses gives numbers"
    assert mismatch(MLP, NUMBERS) is None


def test_a_part_that_does_not_suit_is_found() -> None:
    with pytest.raises(UsageError, match="Graphs learns from a graph with classes of nodes; digits gives images"):
        check_suits(Blueprint(Wraps, {"model": Blueprint(Wraps, {"model": Blueprint(Graphs)})}), load_data("digits"))
    check_suits(Blueprint(Wraps, {"model": Blueprint(MLP)}), load_data("digits"))


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (MLP, "digits"),
        (VAE, "digits:dequantized"),
        (Graphs, "karate"),
        (Texts, "text"),
        (Regression, "diabetes"),
        (Halves, "moons"),
    ],
)
def test_data_that_come_along_are_chosen_by_what_the_model_learns_from(cls: type[Model[Any]], name: str) -> None:
    assert default_data(Blueprint(cls)).name == name
    assert default_data(Blueprint(Wraps, {"model": Blueprint(cls)})).name == name


def test_a_model_may_name_the_data_that_it_is_shown_on() -> None:
    ising = Blueprint(catalogue.find("ising"))
    assert default_data(ising).name == "ising:spins"
    assert default_data(Blueprint(catalogue.find("boltzmann_machine"))).name == "bars-and-stripes:binary"
    assert default_data(Blueprint(catalogue.find("wavenet"))).name == "waveform"
    assert default_data(Blueprint(Wraps, {"model": ising})).name == "ising:spins"


def test_where_nothing_suits_data_must_be_given() -> None:
    with pytest.raises(UsageError, match="Volumes learns from labeled examples, and none that suit"):
        default_data(Blueprint(Volumes))


def test_a_model_of_zeros_and_ones_gets_images_of_zeros_and_ones() -> None:
    assert default_data(Blueprint(catalogue.find("rbm"))).name == "digits:binary"
    assert default_data(Blueprint(VAE, {"likelihood": "bernoulli"})).name == "digits:binary"
    assert default_data(Blueprint(VAE)).name == "digits:dequantized"
