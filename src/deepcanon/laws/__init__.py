"""Public laws: checks of the properties that any model of a kind must have, measured on any ``nn.Module``.

>>> from deepcanon.core.toy import Toy
>>> [outcome.law for outcome in check(Toy, "contract") if not outcome.holds]
[]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.core.options import choose
from deepcanon.laws.activation import check_activation
from deepcanon.laws.attention import check_attention
from deepcanon.laws.autoencoder import check_autoencoder
from deepcanon.laws.classifier import check_classifier
from deepcanon.laws.continuous import check_continuous
from deepcanon.laws.contract import check_contract
from deepcanon.laws.convolution import check_convolution
from deepcanon.laws.decoding import check_decoding
from deepcanon.laws.diffusion import check_diffusion
from deepcanon.laws.discrete import check_discrete
from deepcanon.laws.dropout import check_dropout
from deepcanon.laws.energy import check_energy
from deepcanon.laws.flow import check_flow
from deepcanon.laws.forecaster import check_forecaster
from deepcanon.laws.game import check_game
from deepcanon.laws.graph import check_graph
from deepcanon.laws.graph_density import check_graph_density
from deepcanon.laws.graphs import check_graphs
from deepcanon.laws.initialization import check_initialization
from deepcanon.laws.kinds import EXAMPLES, kinds_of
from deepcanon.laws.latent import check_latent
from deepcanon.laws.loss import check_loss
from deepcanon.laws.method import check_method
from deepcanon.laws.mixed import check_mixed
from deepcanon.laws.normalization import check_normalization
from deepcanon.laws.optimizer import check_optimizer
from deepcanon.laws.outcome import Outcome, Outcomes, report
from deepcanon.laws.output_layer import check_output_layer
from deepcanon.laws.positions import check_positions
from deepcanon.laws.recurrent import check_recurrent
from deepcanon.laws.sampler import check_sampler
from deepcanon.laws.score import check_score
from deepcanon.laws.sequence import check_sequence
from deepcanon.laws.target import load_target, target_of
from deepcanon.laws.transform import check_transform
from deepcanon.laws.translation import check_translation
from deepcanon.laws.videos import check_videos
from deepcanon.lazy import listing

KINDS: dict[str, Callable[[nn.Module, Any], list[Outcome]]] = {
    "contract": check_contract,
    "classifier": check_classifier,
    "latent": check_latent,
    "autoencoder": check_autoencoder,
    "discrete": check_discrete,
    "mixed": check_mixed,
    "energy": check_energy,
    "continuous": check_continuous,
    "sampler": check_sampler,
    "flow": check_flow,
    "score": check_score,
    "diffusion": check_diffusion,
    "game": check_game,
    "attention": check_attention,
    "sequence": check_sequence,
    "forecaster": check_forecaster,
    "videos": check_videos,
    "translation": check_translation,
    "decoding": check_decoding,
    "graph": check_graph,
    "graphs": check_graphs,
    "graph_density": check_graph_density,
    "method": check_method,
    "recurrent": check_recurrent,
    "transform": check_transform,
    "positions": check_positions,
    "dropout": check_dropout,
    "normalization": check_normalization,
    "convolution": check_convolution,
    "activation": check_activation,
    "loss": check_loss,
    "initialization": check_initialization,
    "optimizer": check_optimizer,
    "output_layer": check_output_layer,
}
"""The kinds of laws: first those of whole models, then those of parts."""

__all__ = ["KINDS", "Outcome", "Outcomes", "check", "kinds_of", "load_target", "report"]
__dir__ = listing(__name__)


def check(target: Any, kind: str | None = None) -> Outcomes:
    """The outcomes of the laws of a kind for a class with ``example()``, a module, or a pair of module and batch.

    Without a kind, those of all kinds that the module falls under; ``"FILE.py:NAME"`` names a class in a file.
    """
    with torch.random.fork_rng(devices=[]):  # what is built here draws from no one else's random numbers
        return Outcomes(_checked(load_target(target) if isinstance(target, str) else target, kind))


def _checked(target: Any, kind: str | None) -> list[Outcome]:
    if kind is None:
        return [outcome for each in kinds_of(target) for outcome in _checked(target, each)]
    choose("kind", kind, KINDS)
    module, batch = target_of(target)
    if batch is None and kind in EXAMPLES:
        batch = EXAMPLES[kind](module)
    if batch is None:
        raise UsageError(
            f"{type(module).__name__} brings no examples; give the pair (module, batch), or an example() that returns "
            f"it, or name a function that does; help('deepcanon.laws.{kind}') says what the laws call"
        )
    return KINDS[kind](module, batch)
