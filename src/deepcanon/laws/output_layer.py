r"""The laws of output layers: modules with ``log_probs(h)``, ``nats(h, y)`` and ``loss(h, y)`` for many classes.

The probabilities are those of all classes, whatever the loss draws. A loss of ``samples`` noise classes is held to what
it is with ``samples = None``, where all classes are noise: enumeration in place of draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import attribute, is_plain
from deepcanon.laws.probe import doubled, seeded

ROWS = 6
DRAWS = 600
BOUND = 1e-6
MANY = 1e9
"""So many negatives stand for a number without bound."""


@law
def probabilities_sum_to_one(module: Any, batch: Labeled) -> Measured:
    """The probabilities of all classes sum up to one, given any hidden vector: also those of a tree."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        gap = float((module.log_probs(batch.x).exp().sum(-1) - 1).abs().max())
    return gap, BOUND, f"the sums are off by {gap:.2g}"


@law
def nats_are_those_of_the_probabilities(module: Any, batch: Labeled) -> Measured:
    """The nats of a class are its negative log-likelihood."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        wanted = -module.log_probs(batch.x).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)
        gap = float((module.nats(batch.x, batch.y) - wanted).abs().max())
    return gap, BOUND, f"nats differ from log-probabilities by {gap:.2g}"


@law
def the_gradient_tends_to_that_of_the_nats(module: Any, batch: Labeled) -> Measured | None:
    """With all classes as noise, and negatives without bound, the loss has the gradient of the nats.

    Scores are first normalized, as those of noise-contrastive estimation come to be by themselves. A layer whose loss
    estimates no likelihood says so by ``tends_to_nats = False``.
    """
    if not getattr(module, "tends_to_nats", True):
        return None
    module, batch = _of_all_classes(module, batch.select(torch.tensor([0])))
    if hasattr(module, "negatives"):
        module.negatives = MANY
    scores = getattr(module, "scores", None)
    if isinstance(scores, nn.Linear) and scores.bias is not None:
        with torch.no_grad():
            scores.bias.sub_(scores(batch.x).logsumexp(-1))
    found, wanted = (_slope(measure, module, batch) for measure in (module.loss, module.nats))
    gap = float((found - wanted).norm() / wanted.norm())
    return gap, BOUND, f"the gradient of the loss of all classes is {gap:.2g} of its length away from that of the nats"


@law
def draws_have_the_expectation_of_all_classes(module: Any, batch: Labeled) -> Measured | None:
    """The loss, or its exponential as an estimate of the partition function, is unbiased for any number of samples."""
    if getattr(module, "samples", None) is None:
        return None
    module, batch = doubled(module, batch.select(torch.tensor([0])))
    with torch.no_grad():
        drawn = torch.stack([module.loss(batch.x, batch.y) for _ in range(DRAWS)]).flatten()
        module.samples = None
        exact = module.loss(batch.x, batch.y)
    gaps = [_errors_apart(each(drawn), each(exact)) for each in (torch.clone, torch.exp)]
    return min(gaps), 6, f"{DRAWS} draws have a mean {min(gaps):.2g} standard errors away from that of all classes"


LAWS = (
    probabilities_sum_to_one,
    nats_are_those_of_the_probabilities,
    the_gradient_tends_to_that_of_the_nats,
    draws_have_the_expectation_of_all_classes,
)


def check_output_layer(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of output layers."""
    if not isinstance(batch, Labeled) or not _has_methods(module):
        raise UsageError("output layers have log_probs, nats and loss of hidden vectors x and classes y: Labeled(x, y)")
    return outcomes(LAWS, module, batch)


def recognize_output_layer(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Hidden vectors and classes for an output layer; None for anything else."""
    if not (is_plain(module) and _has_methods(module)):
        return None
    if isinstance(batch, Labeled):
        return batch
    width, classes = attribute(module, "width", "in_features"), attribute(module, "classes", "n_classes")
    if not isinstance(width, int) or not isinstance(classes, int):
        return None
    generator = seeded(0)
    return Labeled(torch.randn(ROWS, width, generator=generator), torch.randint(classes, (ROWS,), generator=generator))


def _has_methods(module: nn.Module) -> bool:
    return all(callable(getattr(module, name, None)) for name in ("log_probs", "nats", "loss"))


def _of_all_classes(module: Any, batch: Labeled) -> tuple[Any, Labeled]:
    module, batch = doubled(module, batch)
    if getattr(module, "samples", None) is not None:
        module.samples = None
    return module, batch


def _slope(measure: Callable[[Tensor, Tensor], Tensor], module: nn.Module, batch: Labeled) -> Tensor:
    """The gradient by the hidden vectors and all parameters, as one vector."""
    h = batch.x.clone().requires_grad_()
    parts = [h, *module.parameters()]
    slopes = torch.autograd.grad(measure(h, batch.y).sum(), parts, allow_unused=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(parts, slopes, strict=True)])


def _errors_apart(drawn: Tensor, exact: Tensor) -> float:
    gap = float((drawn.mean() - exact).abs())
    error = float(drawn.std()) / len(drawn) ** 0.5
    return float(gap / (error + 1e-9 * float(1 + exact.abs())))
