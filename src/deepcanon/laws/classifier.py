"""The laws of classifiers: any module whose ``forward`` gives one logit per class."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, first, precise, repeated, seeded, total
from deepcanon.laws.slope import slopes

RARE = 1e-6
"""The significance level of a statistical test: a statistic that is less probable breaks the law."""
COPIES = 8
"""The copies of each example that is to be learned by heart."""


@law
def gives_logits_for_every_class(module: nn.Module, batch: Labeled) -> Measured:
    """The output is one finite row per example that covers every label, and its probabilities sum to 1."""
    module.eval()
    with torch.no_grad():
        output = module(*batch.inputs)
        if output.ndim != 2 or len(output) != len(batch) or output.shape[1] <= int(batch.y.max()):
            return 1, 0, f"{len(batch)} examples of {int(batch.y.max()) + 1} classes give {tuple(output.shape)}"
        shares = probabilities(module, batch)
    gap = float((shares.sum(-1) - 1).abs().max()) + float((-shares).clamp_min(0).max())
    finite = bool(output.isfinite().all())
    bound = 1e-4 if finite else -1.0
    words = "finite" if finite else "not all finite"
    return gap, bound, f"logits {tuple(output.shape)} are {words}; the sums of the probabilities are off by {gap:.2g}"


@law
def logits_are_not_probabilities(module: nn.Module, batch: Labeled) -> Measured:
    """A row that is positive and sums to 1 went through a softmax already; the loss would apply a second one."""
    stirred(module).eval()
    with torch.no_grad():
        output = module(*batch.inputs).double()
    already = (output >= 0).all(-1) & ((output.sum(-1) - 1).abs() < 1e-4)
    share = float(already.double().mean())
    return share, 0.5, f"{share:.0%} of the rows are probabilities already"


@law
def examples_do_not_mix(module: nn.Module, batch: Labeled) -> Measured | None:
    """In eval mode an example has the output that it has alone, even in a batch with broken examples."""
    if len(batch) < 2:
        return None
    module, batch, bound = precise(stirred(module), batch)
    worst, where = 0.0, "alone and in the batch they agree"
    with torch.no_grad():
        together = module(*batch.inputs)
        for i in range(min(4, len(batch))):
            alone = module(*batch.select(torch.tensor([i])).inputs)
            broken = module(*_broken(batch, keep=i).inputs)
            for gap, how in (
                (distance(alone, together[i : i + 1]), "alone"),
                (distance(broken[i], together[i]), "next to broken ones"),
            ):
                if not gap <= worst:
                    worst, where = gap, f"example {i} moves by {gap:.2g} when it is {how}"
    return worst, bound, where


@law
def order_does_not_matter(module: nn.Module, batch: Labeled) -> Measured | None:
    """Shuffled examples have the shuffled outputs."""
    if len(batch) < 2:
        return None
    module, batch, bound = precise(stirred(module), batch)
    order = torch.randperm(len(batch), generator=seeded(0)).roll(1)
    with torch.no_grad():
        gap = distance(module(*batch.select(order).inputs), module(*batch.inputs)[order])
    return gap, bound, f"{len(batch)} examples in another order"


@law
def same_input_same_output(module: nn.Module, batch: Labeled) -> Measured:
    """In eval mode nothing is random and nothing is remembered."""
    stirred(module).eval()
    with torch.no_grad():
        torch.manual_seed(1)
        once = module(*batch.inputs)
        torch.manual_seed(2)
        gap = distance(module(*batch.inputs), once)
    return gap, 0, "two passes over the same batch"


@law
def gradient_is_the_slope(module: nn.Module, batch: Labeled) -> Measured | None:
    """The gradient of the cross-entropy agrees with central differences in double precision, along random lines."""
    module, batch, bound = precise(stirred(module), batch)
    if bound > TIGHT:  # differences in single precision say nothing
        return None
    return slopes(module, lambda: cross_entropy(module, batch))


@law
def learns_one_example_per_class(module: nn.Module, batch: Labeled) -> Measured | None:
    """A classifier that works can overfit one example of each class: its cross-entropy falls well below log C."""
    small = _one_per_class(batch)
    if len(small) < 2 or not any(parameter.requires_grad for parameter in module.parameters()):
        return None
    chance = math.log(len(small))
    reached = math.inf
    # In copies, as a data set of its own: an ensemble that resamples may leave out an example that occurs once.
    copies = small.part(torch.arange(len(small), device=small.device).repeat(COPIES))
    for rate in (1e-2, 1e-3, 1e-1):
        learner = copy.deepcopy(module)
        reached = min(reached, _learn(learner, copies, rate, enough=0.25 * chance))
        if reached <= 0.25 * chance:
            break
    return reached, 0.3 * chance, f"{len(small)} examples: chance is {chance:.3g} nats, {reached:.3g} were reached"


@law
def shuffled_labels_give_chance(module: Any, batch: Labeled) -> Measured | None:
    """Random labels of new examples cannot be predicted: accuracy above chance is a leak of the labels."""
    if not any(parameter.requires_grad for parameter in module.parameters()):
        return None
    with torch.no_grad():
        classes = probabilities(module.eval(), first(batch, 2)).shape[1]
    random = seeded(0)
    many = repeated(batch, math.ceil(256 / len(batch)))
    seen, new = (replace(many, y=torch.randint(classes, (len(many),), generator=random)) for _ in range(2))
    _learn(module, seen, 1e-2, steps=20)
    module.eval()
    with torch.no_grad():
        if hasattr(module, "loss"):
            module.loss(new)  # a model that stores the labels of its batch would predict from memory
        right = int((_prediction(module, new) == new.y).sum())
    bound = int(stats.binom.isf(RARE, len(new), 1 / classes))
    return (
        right / len(new),
        bound / len(new),
        f"{right} of {len(new)} random labels were predicted, at random 1 in {classes}",
    )


@law
def mode_is_the_likeliest_class(module: Any, batch: Labeled) -> Measured | None:
    """``predict(how="mode")`` is the class with the highest probability."""
    if not hasattr(module, "predict"):
        return None
    stirred(module).eval()
    with torch.no_grad():
        shares, said = probabilities(module, batch), module.predict(*batch.inputs, how="mode")
    lead = shares.max(-1).values - shares.gather(-1, said.unsqueeze(-1)).squeeze(-1)
    return float(lead.max()), 1e-6, f"{len(batch)} predictions; the largest lead of another class is {lead.max():.2g}"


@law
def samples_follow_the_mean(module: Any, batch: Labeled) -> Measured | None:
    """Classes sampled by ``predict`` occur with the frequencies of its probabilities (chi-square test)."""
    if not hasattr(module, "predict"):
        return None
    stirred(module).eval()
    few = first(batch, 8)
    count = 2000
    with torch.no_grad():
        shares = probabilities(module, few).double()
        many = repeated(few, count)
        drawn = module.predict(*many.inputs, how="sample", generator=seeded(0)).reshape(count, len(few))
    seen = F.one_hot(drawn, shares.shape[1]).sum(0).double()
    expected = count * shares
    frequent = expected >= 5  # rarer classes are counted together
    statistic, freedom = 0.0, 0
    for i in range(len(few)):
        cells = [(float(seen[i, c]), float(expected[i, c])) for c in frequent[i].nonzero().flatten().tolist()]
        rest = (float(seen[i][~frequent[i]].sum()), float(expected[i][~frequent[i]].sum()))
        if rest[1] >= 5 or rest[0] > 50:
            cells.append((rest[0], max(rest[1], 0.5)))
        statistic += sum((got - want) ** 2 / want for got, want in cells)
        freedom += len(cells) - 1
    if freedom == 0:
        return None
    bound = float(stats.chi2.isf(RARE, freedom))
    return statistic, bound, f"chi-square of {count} draws for {len(few)} examples, {freedom} degrees of freedom"


@law
def loss_is_the_negative_log_likelihood(module: Any, batch: Labeled) -> Measured | None:
    """The loss, or one of its terms, is the mean negative log-likelihood of the true class.

    The law does not apply to a model that declares its loss a surrogate, such as the perceptron.
    """
    if getattr(module, "surrogate", False) or not (hasattr(module, "loss") and hasattr(module, "predict")):
        return None
    module, batch, bound = precise(stirred(module), batch)
    with torch.no_grad():
        terms = module.loss(batch)
        chosen = probabilities(module, batch).gather(-1, batch.y.unsqueeze(-1))
    wanted = -float(chosen.log().mean())
    candidates = [float(total(terms)), *(float(value) for value in terms.values())]
    nearest = min(candidates, key=lambda value: abs(value - wanted))
    return (
        abs(nearest - wanted),
        max(1e-6, bound) * (1 + abs(wanted)),
        f"the loss is {nearest:.6g}, -log p is {wanted:.6g}",
    )


LAWS = (
    gives_logits_for_every_class,
    logits_are_not_probabilities,
    examples_do_not_mix,
    order_does_not_matter,
    same_input_same_output,
    gradient_is_the_slope,
    learns_one_example_per_class,
    shuffled_labels_give_chance,
    mode_is_the_likeliest_class,
    samples_follow_the_mean,
    loss_is_the_negative_log_likelihood,
)


def check_classifier(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of classifiers for any module that gives logits."""
    if not isinstance(batch, Labeled) or batch.y.is_floating_point() or batch.y.ndim != 1:
        raise UsageError("a classifier is checked on examples with classes: Labeled(x, y) with whole numbers y, (B,)")
    return outcomes(LAWS, module, batch)


def stirred(module: nn.Module) -> nn.Module:
    """The module with noise on its parameters: weights that are initialized to zero would hide many a fault."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return module


def probabilities(module: Any, batch: Batch) -> Tensor:
    """The probabilities of the classes: the module's own, or the softmax of its logits."""
    if hasattr(module, "predict"):
        shares: Tensor = module.predict(*batch.inputs, how="mean")
        return shares
    output: Tensor = module(*batch.inputs)
    return output.softmax(-1)


def cross_entropy(module: nn.Module, batch: Labeled) -> Tensor:
    return F.cross_entropy(module(*batch.inputs), batch.y)


def _prediction(module: Any, batch: Batch) -> Tensor:
    if hasattr(module, "predict"):
        said: Tensor = module.predict(*batch.inputs, how="mode")
        return said
    output: Tensor = module(*batch.inputs)
    return output.argmax(-1)


def _learn(module: Any, batch: Labeled, rate: float, steps: int = 200, enough: float = 0.0) -> float:
    """Train with Adam on one batch; the cross-entropy in eval mode at the end, or as soon as it is ``enough``."""
    optimizer = torch.optim.Adam([parameter for parameter in module.parameters() if parameter.requires_grad], lr=rate)
    reached = math.inf
    for step in range(1, steps + 1):
        module.train()
        loss = total(module.loss(batch)) if hasattr(module, "loss") else cross_entropy(module, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == steps:
            with torch.no_grad():
                reached = float(cross_entropy(module.eval(), batch))
            if reached <= enough:
                break
    return reached


def _one_per_class(batch: Labeled) -> Labeled:
    firsts = {label: i for i, label in reversed(list(enumerate(batch.y.tolist())))}
    return batch.select(torch.tensor(sorted(firsts.values())[:10]))


def _broken(batch: Labeled, keep: int) -> Labeled:
    """The batch with every other example made of NaN, or of zeros where examples are whole numbers."""
    x = torch.full_like(batch.x, math.nan) if batch.x.is_floating_point() else torch.zeros_like(batch.x)
    kept = batch.rows(torch.tensor([keep], device=batch.device))
    x[kept] = batch.x[kept]
    return replace(batch, x=x)
