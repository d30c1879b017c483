"""The kinds of laws that a module falls under: of models by their methods and examples, of parts by what they are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter

from deepcanon.core import (
    AnyBatch,
    GraphBatch,
    Graphs,
    Labeled,
    LabeledPairs,
    LabeledSequences,
    Model,
    Series,
    UsageError,
    Videos,
)
from deepcanon.core.checks import is_binary
from deepcanon.laws.activation import recognize_activation
from deepcanon.laws.attention import recognize_attention
from deepcanon.laws.convolution import recognize_convolution
from deepcanon.laws.dropout import recognize_dropout
from deepcanon.laws.graph import invented_graph
from deepcanon.laws.initialization import recognize_initialization
from deepcanon.laws.loss import recognize_loss
from deepcanon.laws.normalization import recognize_normalization
from deepcanon.laws.optimizer import recognize_optimizer
from deepcanon.laws.output_layer import recognize_output_layer
from deepcanon.laws.parts import Recognize
from deepcanon.laws.positions import recognize_positions
from deepcanon.laws.recurrent import recognize_recurrent
from deepcanon.laws.target import invented_batch, target_of
from deepcanon.laws.transform import recognize_transform

PARTS: dict[str, Recognize] = {
    "optimizer": recognize_optimizer,
    "output_layer": recognize_output_layer,
    "loss": recognize_loss,
    "attention": recognize_attention,
    "recurrent": recognize_recurrent,
    "transform": recognize_transform,
    "positions": recognize_positions,
    "dropout": recognize_dropout,
    "normalization": recognize_normalization,
    "convolution": recognize_convolution,
    "activation": recognize_activation,
}
"""The kinds of parts, the first that recognizes a module; the weights of any part are held to ``initialization``."""

EXAMPLES: dict[str, Callable[[nn.Module], AnyBatch | None]] = {
    "classifier": invented_batch,
    "graph": invented_graph,
    **{kind: partial(recognize, batch=None) for kind, recognize in PARTS.items()},
    "initialization": partial(recognize_initialization, batch=None),
}
"""What invents examples for a module that brings none."""

DISCRETE = ("binary", "spins", "categorical", "gray levels")
"""The supports of probabilities, as opposed to densities."""


def kinds_of(target: Any) -> list[str]:
    """The kinds of laws that apply to a class with ``example()``, a module, or a pair of module and batch.

    A deepcanon model is always held to the contract. A plain module with nothing but ``forward`` is a part that is
    recognized by its type, its name or its answers, or else a classifier if it gives logits.

    >>> from deepcanon.core.toy import Toy
    >>> kinds_of(Toy)
    ['contract']
    >>> from torch import nn
    >>> kinds_of(nn.Linear(4, 3))
    ['classifier']
    >>> kinds_of(nn.MultiheadAttention(8, 2)), kinds_of(nn.BatchNorm1d(4))
    (['attention', 'initialization'], ['normalization'])
    """
    module, batch = target_of(target)
    found = ["contract"] if isinstance(module, Model) else []
    found += [kind for kind, applies in _tests(module, batch) if applies]
    if not found:
        found = _parts(module, batch)
    if not found:
        try:
            invented_batch(module)
        except UsageError as error:
            raise UsageError(
                f"the methods and answers of {type(module).__name__} do not say which laws it must keep: name a kind"
            ) from error
        found.append("classifier")
    if _is_built(module) and recognize_initialization(module, batch) is not None:
        found.append("initialization")
    return found


def _parts(module: nn.Module, batch: AnyBatch | None) -> list[str]:
    """The kind of a part, if the module is one; what is to be built by its first input is none yet."""
    kinds = (kind for kind, recognize in PARTS.items() if _is_built(module) and recognize(module, batch) is not None)
    return list(itertools.islice(kinds, 1))


def _is_built(module: nn.Module) -> bool:
    return not any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters())


def _tests(module: Any, batch: Any) -> list[tuple[str, bool]]:
    def has(*methods: str) -> bool:
        return all(callable(getattr(module, method, None)) for method in methods)

    plain = not isinstance(module, Model)  # which has no words for its support and the kind of its likelihood
    bits = batch is not None and is_binary(batch.x)
    support = getattr(module, "support", ("binary" if bits else "real") if plain else "any")
    kind = getattr(module, "likelihood_kind", "exact" if plain else "")
    density = has("log_prob") and support == "real" and kind == "exact"
    pairs = isinstance(batch, LabeledPairs)  # of which an example, a graph, has many
    classes = isinstance(batch, Labeled) and not batch.y.is_floating_point() and not pairs
    return [
        ("classifier", has("predict") and classes),
        ("latent", has("encode", "decode", "log_prob")),
        ("autoencoder", has("encode", "decode") and not has("log_prob")),
        ("discrete", has("log_prob") and support in DISCRETE and not has("generate")),
        ("mixed", has("log_prob", "sample") and support == "mixed"),
        ("energy", has("energy")),
        ("continuous", density),
        ("sampler", density and has("sample")),
        ("flow", has("to_latent")),
        ("score", has("score") and not has("log_prob")),
        ("diffusion", has("posterior", "reverse")),
        ("game", has("discriminator_loss")),
        ("sequence", isinstance(batch, LabeledSequences) or has("generate")),
        ("translation", has("translate")),
        ("decoding", has("beam_search")),
        ("attention", has("attention_maps", "read")),
        ("forecaster", has("log_prob", "forecast") and isinstance(batch, Series)),
        ("videos", has("log_prob") and isinstance(batch, Videos)),
        ("graph", isinstance(batch, GraphBatch)),
        ("graphs", isinstance(batch, Graphs) and not pairs and not has("log_prob")),
        ("graph_density", has("log_prob", "sample") and isinstance(batch, Graphs)),
        ("method", isinstance(module, Model) and has("unwrapped")),
    ]
