"""Which models to compare where none are named: a rule by the kind of the data, their number and the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepcanon.blueprints import blueprint
from deepcanon.core import AnyBatch, Blueprint, Graph, Labeled, UsageError
from deepcanon.core.plural import counted
from deepcanon.data import Dataset
from deepcanon.data.dataset import GIVES
from deepcanon.data.suits import suits


@dataclass(frozen=True)
class Option:
    """A model that may be chosen, and why: for so many training examples or more, if a training may take so long."""

    model: str
    why: str
    examples: int = 0
    seconds: float = 0.0


LINEAR = Option("regularized:model=softmax_regression,l2=0.01", "the linear model with a small penalty")
CLASSES = (
    LINEAR,
    Option("mlp", "one hidden layer"),
    Option("mlp:hidden=256/256,dropout=0.2", "two hidden layers with dropout", 500),
)
NUMBERS = (
    Option("linear_regression", "the linear model"),
    Option("mlp", "one hidden layer"),
    Option("mlp:hidden=256/256,dropout=0.1", "two hidden layers with dropout", 500),
)
IMAGES = (
    LINEAR,
    Option("mlp", "a network that does not know that pixels have neighbors"),
    Option("cnn", "convolutions"),
    Option("resnet", "a deep network with skip connections", 5000, 300),
)
DENSITIES = (
    Option("vae", "latent variables"),
    Option("realnvp", "an invertible map, with exact likelihoods"),
    Option("ddpm", "diffusion, with the slowest training", 500, 60),
)
TOKENS = (
    Option("lstm", "a recurrent network"),
    Option("gpt", "a transformer", 200, 60),
)
WAVEFORMS = (
    Option("wavenet", "dilated causal convolutions"),
    Option("lstm", "a recurrent network"),
)
GRAPH = (
    Option("gcn", "features spread along the edges"),
    Option("spectral_network", "filters of the graph's spectrum"),
)
OTHERS = tuple(
    Option(name, why)
    for name, why in (
        ("deepar", "a recurrent network with a likelihood of each step"),
        ("lstm_predictor", "a recurrent network"),
        ("transformer_classifier", "a transformer encoder"),
        ("graph_classifier", "messages along the edges, summed over each graph"),
        ("link_predictor", "pairs of nodes by their neighbors"),
        ("seq2seq_attention", "an encoder, a decoder and attention"),
        ("transformer", "an encoder and a decoder of attention alone"),
        ("bert", "a transformer that fills in masked tokens"),
        ("caption", "a convolutional encoder and a recurrent decoder"),
        ("video_flow", "a flow of frames, and a process of their latents"),
        ("ratings_rbm", "a Boltzmann machine of the ratings"),
        ("cyclegan", "maps between the domains that undo each other"),
    )
)


def choose(data: Dataset[Any], budget: float | None = None) -> tuple[list[Blueprint], list[str]]:
    """The models that suit the data, few of them and of different kinds, and a sentence on why each was chosen or not.

    The order is that of the tables above. ``budget`` is the most seconds for a training.

    >>> from deepcanon.data import load_data
    >>> chosen, why = choose(load_data("moons"), budget=10)
    >>> [each.label for each in chosen]
    ['regularized:model=softmax_regression,l2=0.01', 'mlp', 'mlp:hidden=256/256,dropout=0.2']
    """
    chosen, why, left = [], [], []
    examples = _count(data.train)
    for option in _options(data):
        candidate = blueprint(option.model)
        if not suits(candidate, data):
            continue
        if examples < option.examples:
            left.append(
                f"{option.model} ({option.why}) is for {counted(option.examples, 'training example', ',')} or more"
            )
        elif budget is not None and budget < option.seconds:
            left.append(f"{option.model} ({option.why}) takes a budget of {option.seconds:g} s or more")
        else:
            chosen.append(candidate)
            why.append(f"{candidate.label}: {option.why}")
    if not chosen:
        raise UsageError(
            f"no model is chosen by itself for {GIVES[data.kind]}, as {data.name} gives: name the models to compare; "
            "deepcanon list shows them"
        )
    reason = (
        f"No models were named; these suit {GIVES[data.kind]}{_labels(data)}, "
        f"{counted(examples, 'training example', ',')}: {'; '.join(why)}."
    )
    return chosen, [reason, *(f"Left out: {sentence}." for sentence in left)]


def _options(data: Dataset[Any]) -> Sequence[Option]:
    labeled = isinstance(data.train, Labeled)
    if data.kind in ("table", "points"):
        return (CLASSES if "classes" in data.sizes else NUMBERS) if labeled else DENSITIES
    by_kind = {"images": IMAGES if labeled else DENSITIES, "text": TOKENS, "waveforms": WAVEFORMS, "graph": GRAPH}
    return by_kind.get(data.kind, OTHERS)


def _count(train: AnyBatch) -> int:
    """The number of training examples; of one graph that of its labeled nodes."""
    graph = getattr(train, "graph", None)
    return (
        len(train.labels) if isinstance(graph, Graph) and len(train) == 1 and train.labels is not None else len(train)
    )


def _labels(data: Dataset[Any]) -> str:
    if "classes" in data.sizes:
        return f" with {counted(data.sizes['classes'], 'class', '', 'classes')}"
    return " with a number to predict" if "targets" in data.sizes else ""
