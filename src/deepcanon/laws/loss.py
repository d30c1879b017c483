r"""The laws of losses: modules that are called as ``loss(prediction, target)`` and give the mean over the examples.

A loss whose name is known is compared with its closed form, such as :math:`-\log p_y` for a cross-entropy of logits or
:math:`(1 - p_y)^\gamma` times that for a focal loss (Lin et al., 2017).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import answer, arguments, attribute, called, is_plain
from deepcanon.laws.probe import doubled, repeated, seeded

ROWS, CLASSES = 8, 5
BOUND = 1e-6
STEP = 1e-5


@dataclass(frozen=True)
class Form:
    """The closed form of a loss: the names it goes by, the kind of its examples, and its value per example or entry."""

    pattern: str
    examples: str
    value: Callable[[Any, Tensor, Tensor], Tensor]


def _chosen(log: Tensor, y: Tensor) -> Tensor:
    return log.gather(-1, y.unsqueeze(-1)).squeeze(-1)


def _focal(module: Any, x: Tensor, y: Tensor) -> Tensor:
    log = _chosen(x.log_softmax(-1), y)
    gamma = attribute(module, "gamma")
    return -((1 - log.exp()) ** (2.0 if gamma is None else gamma)) * log


def _huber(module: Any, x: Tensor, y: Tensor) -> Tensor:
    delta, error = float(getattr(module, "delta", 1.0)), (x - y).abs()
    return torch.where(error <= delta, 0.5 * error**2, delta * (error - 0.5 * delta))


def _smooth(module: Any, x: Tensor, y: Tensor) -> Tensor:
    beta = float(getattr(module, "beta", 1.0))
    error = (x - y).abs()
    return torch.where(error < beta, 0.5 * error**2 / beta, error - 0.5 * beta)


def _margins(x: Tensor, y: Tensor) -> Tensor:
    """1 + s_k - s_y for every other class k, and 0 for y."""
    own = torch.nn.functional.one_hot(y, x.shape[-1]).bool()
    return (1 + x - x.gather(-1, y.unsqueeze(-1))).masked_fill(own, 0).clamp_min(0)


FORMS = (
    Form("(Binary)?Focal", "classes", _focal),
    Form(
        "BCEWithLogits|BinaryCrossEntropyWithLogits",
        "bits",
        lambda _, x, y: -(y * x.sigmoid().log() + (1 - y) * (-x).sigmoid().log()),
    ),
    Form("BCE|BinaryCrossEntropy", "chances", lambda _, x, y: -(y * x.log() + (1 - y) * (1 - x).log())),
    Form("CrossEntropy", "classes", lambda _, x, y: -_chosen(x.log_softmax(-1), y)),
    Form("KL(Div|Divergence)?|KullbackLeibler", "distributions", lambda _, x, y: (y * (y.log() - x)).sum(-1)),
    Form("(?<!Gaussian)(?<!Poisson)(NLL|NegativeLogLikelihood)", "log-chances", lambda _, x, y: -_chosen(x, y)),
    Form("MSE|MeanSquared(Error)?", "reals", lambda _, x, y: (x - y) ** 2),
    Form("(?<!Smooth)L1|MAE|MeanAbsolute(Error)?", "reals", lambda _, x, y: (x - y).abs()),
    Form("Huber", "reals", _huber),
    Form("SmoothL1", "reals", _smooth),
    Form("PoissonNLL", "counts", lambda _, x, y: x.exp() - y * x),
    Form("MultiMargin", "classes", lambda _, x, y: _margins(x, y).sum(-1) / x.shape[-1]),
    Form("(?<!Embedding)Hinge(?!Embedding)", "classes", lambda _, x, y: _margins(x, y).amax(-1)),
)
"""Closed forms, the first that a name matches."""


@law
def the_value_is_the_closed_form(module: Any, batch: Labeled) -> Measured | None:
    """A loss has the value that its name says, in nats, as the mean over the examples or entries."""
    form = _form(module)
    special = ("weight", "pos_weight", "alpha", "label_smoothing", "log_target", "reduce")
    if form is None or any(_is_set(getattr(module, name, None)) for name in special):
        return None  # a weighted form
    module, batch = doubled(module, batch)
    with torch.no_grad():
        found = module(batch.x, batch.y)
        values = form.value(module, batch.x, batch.y)
    if found.ndim > 0:
        gap = float((found - values).abs().max()) if found.shape == values.shape else math.inf
        return (
            gap,
            BOUND,
            f"values of {tuple(found.shape)}, the closed form has {tuple(values.shape)}; off by {gap:.2g}",
        )
    wanted = float(values.sum() if getattr(module, "reduction", "mean") == "sum" else values.mean())
    return (
        abs(float(found) - wanted),
        BOUND * (1 + abs(wanted)),
        f"the loss is {float(found):.6g}, its closed form {wanted:.6g}",
    )


@law
def repeated_examples_keep_the_mean(module: Any, batch: Labeled) -> Measured | None:
    """The loss is a mean: every example twice gives the same."""
    if getattr(module, "reduction", "mean") in ("sum", "none"):
        return None
    module, batch = doubled(module, batch)
    with torch.no_grad():
        once, twice = module(batch.x, batch.y), module(*_parts(repeated(batch, 2)))
    if once.ndim > 0:
        return None
    gap = abs(float(twice) - float(once))
    return gap, BOUND * (1 + abs(float(once))), f"{len(batch)} examples have the loss {once:.6g}, twice {twice:.6g}"


@law
def every_example_counts(module: Any, batch: Labeled) -> Measured:
    """The loss has a slope in the prediction of every example."""
    module, batch = doubled(module, batch)
    x = batch.x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(module(x, batch.y).sum(), x)
    silent = int((slope.flatten(1).abs().sum(1) == 0).sum())
    enough = 0 if _is_smooth(module) else len(batch) - 1  # a hinge is flat where the margin is kept
    return silent, enough, f"{silent} of {len(batch)} predictions do not change the loss"


@law
def the_truth_is_best(module: Any, batch: Labeled) -> Measured:
    """A prediction that comes nearer to the target has a smaller loss; the sign is that of a loss."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        here = float(module(batch.x, batch.y).sum())
        near = float(module(_nearer(module, batch), batch.y).sum())
    return near - here, 0, f"the loss is {here:.6g}, and {near:.6g} nearer to the target"


@law
def the_gradient_is_the_slope(module: Any, batch: Labeled) -> Measured:
    """The gradient in the predictions agrees with central differences."""
    module, batch = doubled(module, batch)
    line = torch.randn(batch.x.shape, generator=seeded(2)).to(batch.x)
    x = batch.x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(module(x, batch.y).sum(), x)
    with torch.no_grad():
        ends = [float(module(batch.x + side * STEP * line, batch.y).sum()) for side in (1, -1)]
    found, wanted = float((slope * line).sum()), (ends[0] - ends[1]) / (2 * STEP)
    return abs(found - wanted), 1e-4 * (1 + abs(wanted)), f"the gradient is {found:.6g}, differences say {wanted:.6g}"


@law
def sure_predictions_stay_finite(module: Any, batch: Labeled) -> Measured | None:
    """Logits of plus or minus a thousand have a finite loss: probabilities of 0 are never given to a logarithm."""
    form = _form(module)
    if form is None or form.examples not in ("classes", "bits"):
        return None
    with torch.no_grad():
        found = module.float()(1000 * batch.x.float().sign(), _target(batch.y))
    bad = int((~found.isfinite()).sum())
    return bad, 0, f"the loss is {float(found.mean()):.4g}"


LAWS = (
    the_value_is_the_closed_form,
    repeated_examples_keep_the_mean,
    every_example_counts,
    the_truth_is_best,
    the_gradient_is_the_slope,
    sure_predictions_stay_finite,
)


def check_loss(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of losses in any module of predictions and targets."""
    if not isinstance(batch, Labeled) or not isinstance(answer(module, batch.x, batch.y), Tensor):
        raise UsageError("a loss gives a number for predictions x and targets y: Labeled(x, y)")
    return outcomes(LAWS, module, batch)


def recognize_loss(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for a module that is called a loss, an error, an entropy or a divergence and has two arguments."""
    words = "[Ll]oss|Entropy|Divergence|Criterion|Error|MSE|BCE|NLL|KL"
    if not is_plain(module) or not called(module, words) or len(arguments(module)) < 2:
        return None
    form = _form(module)
    tried = [batch] if batch is not None else _examples(form.examples if form else "")
    for each in tried:
        if isinstance(each, Labeled):
            output = answer(module, each.x, each.y)
            if isinstance(output, Tensor) and output.is_floating_point() and bool(output.isfinite().all()):
                return each
    return None


def _form(module: nn.Module) -> Form | None:
    name = type(module).__name__
    return next((form for form in FORMS if re.search(rf"(?:{form.pattern})(?![a-z])", name)), None)


def _examples(kind: str) -> Iterator[Labeled]:
    """Predictions and targets of a kind, or of all kinds."""
    random = seeded(0)
    logits = torch.randn(ROWS, CLASSES, generator=random)
    other = torch.randn(ROWS, CLASSES, generator=random)
    classes = torch.randint(CLASSES, (ROWS,), generator=random)
    bits = torch.randint(2, (ROWS, CLASSES), generator=random).float()
    made = {
        "classes": Labeled(logits, classes),
        "bits": Labeled(logits, bits),
        "reals": Labeled(logits, other),
        "chances": Labeled(logits.sigmoid(), bits),
        "log-chances": Labeled(logits.log_softmax(-1), classes),
        "distributions": Labeled(logits.log_softmax(-1), other.softmax(-1)),
        "counts": Labeled(logits, bits * 3),
    }
    yield from [made[kind]] if kind else made.values()


def _nearer(module: Any, batch: Labeled) -> Tensor:
    """Predictions a little nearer to the targets: larger logits of the true class, or values on the way to them."""
    x, y = batch.x, batch.y
    form = _form(module)
    kind = form.examples if form else ("reals" if y.is_floating_point() else "classes")
    if kind in ("classes", "log-chances"):
        return x + 0.1 * torch.nn.functional.one_hot(y, x.shape[-1])
    if kind == "bits":
        return x + 0.1 * (2 * y - 1)
    goal = y.clamp_min(1e-9).log() if kind in ("distributions", "counts") else y
    return x + 0.05 * (goal - x)


def _is_smooth(module: nn.Module) -> bool:
    return not called(module, "(Multi)?(Hinge|Margin|Triplet)([A-Z][a-z]*)?")


def _is_set(value: Any) -> bool:
    return value is not None and not (isinstance(value, float | bool) and not value)


def _target(y: Tensor) -> Tensor:
    return y.float() if y.is_floating_point() else y


def _parts(batch: Labeled) -> tuple[Tensor, Tensor]:
    return batch.x, batch.y
