"""The kinds of laws that a module falls under, read off its methods and its examples."""

from __future__ import annotations

from typing import Any

from deepcanon.core import GraphBatch, Graphs, Labeled, LabeledPairs, LabeledSequences, Model, Series, UsageError
from deepcanon.core.checks import is_binary
from deepcanon.laws.target import invented_batch, target_of

DISCRETE = ("binary", "spins", "categorical", "gray levels")
"""The supports of probabilities, as opposed to densities."""


def kinds_of(target: Any) -> list[str]:
    """The kinds of laws that apply to a class with ``example()``, a module, or a pair of module and batch.

    A deepcanon model is always held to the contract; a plain module with nothing but ``forward`` is a classifier if it
    gives logits.

    >>> from deepcanon.core.toy import Toy
    >>> kinds_of(Toy)
    ['contract']
    >>> from torch import nn
    >>> kinds_of(nn.Linear(4, 3))
    ['classifier']
    """
    module, batch = target_of(target)
    found = ["contract"] if isinstance(module, Model) else []
    found += [kind for kind, applies in _tests(module, batch) if applies]
    if not found:
        try:
            invented_batch(module)
        except UsageError as error:
            raise UsageError(
                f"the methods of {type(module).__name__} do not say which laws it must keep: name a kind"
            ) from error
        found.append("classifier")
    return found


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
        ("attention", has("attention_maps", "read")),
        ("forecaster", has("log_prob", "forecast") and isinstance(batch, Series)),
        ("graph", isinstance(batch, GraphBatch)),
        ("graphs", isinstance(batch, Graphs) and not pairs),
        ("method", isinstance(module, Model) and has("unwrapped")),
    ]
