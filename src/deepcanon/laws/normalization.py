r"""The laws of normalization: layers that are called as ``layer(x)`` and divide by the spread of groups of values.

.. math:: y = \gamma \frac{x - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta

A group is read off the derivatives: the values that one output depends on. Of batch normalization it is a feature in
all examples, of layer normalization an example, of group and instance normalization channels of it. Where values are
not centered, as in RMS normalization, :math:`\mu = 0` and :math:`\sigma^2` is the mean square.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import accepted, answer, attribute, called, given_or, is_plain, keeps_shape, vectors
from deepcanon.laws.probe import doubled, seeded

EPSILONS = ("eps", "epsilon", "variance_epsilon")
NAME = "[Nn]orm(alization)?"
ENTRIES = 3
"""How many outputs are looked at."""
DRAWS = 6
"""How many inputs of different size each of them is computed for."""
BOUND = 1e-6
"""A layer may compute in single precision what it gets in double."""
SINGLE = 1e-5


@law
def outputs_are_standardized_values(module: Any, batch: Batch) -> Measured | None:
    """An output is affine in (x - mean) / sqrt(variance + eps) of its group, for inputs of any size and spread."""
    worst, where = 0.0, ""
    for entry, group in _groups(module, batch.x):
        found, wanted = _pairs(module, batch.x, entry, group)
        gap = min(_unexplained(found, each) for each in wanted)
        if not gap <= worst:
            worst, where = gap, f"; the worst is the output at {entry}"
    return worst, SINGLE, f"{ENTRIES} outputs of {DRAWS} inputs of different spread{where}"


@law
def variance_becomes_one(module: Any, batch: Batch) -> Measured | None:
    """With a gain of 1 and a shift of 0, as it begins, the layer gives each group the variance 1, biased."""
    if not all(_is_constant(parameter) for parameter in module.parameters()):
        return None  # a trained layer, whose gains have moved
    worst, where = 0.0, ""
    for entry, group in _groups(module, batch.x):
        found, wanted = _pairs(module, batch.x, entry, group)
        gap = min(float((found - each).abs().max() / (1 + each.abs().max())) for each in wanted)
        if not gap <= worst:
            worst, where = gap, f"; the worst is the output at {entry}"
    return worst, SINGLE, f"{ENTRIES} outputs compared with standardized values{where}"


@law
def epsilon_is_added_to_the_variance(module: Any, batch: Batch) -> Measured | None:
    """The ``eps`` of the layer stands inside the root: inputs whose variance is eps come out smaller by sqrt(2)."""
    eps = _epsilon(module)
    if not 0 < eps < 0.1 or not all(_is_constant(p) for p in module.parameters()):
        return None
    worst = 0.0
    for entry, group in _groups(module, batch.x):
        found, wanted = _pairs(module, batch.x, entry, group, size=math.sqrt(eps))
        worst = max(worst, min(float((found - each).abs().max()) for each in wanted))
    return worst, 1e-3, f"inputs with a variance of about eps = {eps:g}; the worst output is off by {worst:.2g}"


@law
def constant_inputs_stay_finite(module: Any, batch: Batch) -> Measured:
    """Inputs without any spread give finite outputs and gradients: an eps keeps the division from zero by zero."""
    module, batch = doubled(module, batch)
    module.train()
    x = torch.full_like(batch.x, 0.7).requires_grad_()
    y = module(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    bad = int((~y.isfinite()).sum() + (~slope.isfinite()).sum())
    return bad, 0, f"{bad} of {2 * x.numel()} outputs and derivatives of constant inputs are not finite"


@law
def gain_and_shift_act_linearly(module: Any, batch: Batch) -> Measured | None:
    """The output is linear in every parameter: a gain multiplies as a standard deviation does, not as a variance."""
    module, batch = doubled(module, batch)
    module.train()
    worst, where = 0.0, ""
    for name, parameter in module.named_parameters():
        step = torch.rand(parameter.shape, generator=seeded(1)).to(parameter)
        with torch.no_grad():
            outputs = []
            for _ in range(3):
                outputs.append(module(batch.x))
                parameter.add_(step)
            parameter.sub_(3 * step)
        bend = float((outputs[2] - 2 * outputs[1] + outputs[0]).abs().max())
        if not bend <= worst:
            worst, where = bend, f"; the worst is {name}"
    count = len(list(module.parameters()))
    return (worst, BOUND, f"{count} gains and shifts{where}") if count else None


@law
def any_number_of_examples_will_do(module: Any, batch: Batch) -> Measured:
    """Gains and shifts belong to features: a batch of another size is normalized, too."""
    sizes = [size for size in (2, 3, len(batch) - 1) if size < len(batch)]
    refused = [size for size in sizes if answer(module, batch.x[:size], training=True) is None]
    return len(refused), 0, f"batches of {', '.join(map(str, sizes))} examples; {len(refused)} of them are refused"


@law
def running_statistics_are_means_and_variances(module: Any, batch: Batch) -> Measured | None:
    """A training step moves the running mean and the running variance, not the deviation, by one and the same share."""
    start = _affine(module, batch.x)
    if start is None:
        return None  # evaluation uses the statistics of its own input
    random = seeded(3)
    x = (3 * torch.randn(batch.x.shape, generator=random) + 2).to(start[0])
    with torch.no_grad():
        module.double().train()(x)
    end = _affine(module, batch.x)
    if end is None:
        return 1, 0, "after a training step, evaluation is no longer a fixed affine map"
    (_, group), *_ = _groups(module, batch.x)
    pooled = bool(group.flatten(1).any(1).all())  # over the examples, or within each of them
    values = x.transpose(0, 1).flatten(1) if pooled else x.flatten(2)
    mean, variance = (each if pooled else each.mean(0) for each in (values.mean(-1), values.var(-1)))
    share = ((end[0] - start[0]) / (mean - start[0])).mean()
    gaps = []
    count = values.shape[-1]
    for size in (1.0, (count - 1) / count):  # frameworks disagree whether the variance is the unbiased one
        wanted = start[1] + share * (size * variance - start[1])
        gaps.append(float((end[1] - wanted).abs().max()))
    if not float(share) > 0:
        return 1, 0, "a training step does not move the running mean"
    return min(gaps), 1e-3, f"a share of {float(share):.3g} is new; the running variance is off by {min(gaps):.2g}"


@law
def evaluation_changes_nothing(module: Any, batch: Batch) -> Measured:
    """In eval mode nothing is remembered, and examples do not depend on each other."""
    module, batch = doubled(module, batch)
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    tracked = _affine(module, batch.x) is not None
    with torch.no_grad():
        together = module(batch.x)
        moved = sum(not torch.equal(before[name], buffer) for name, buffer in module.named_buffers())
        alone = answer(module, batch.x[:1])
    mixed = 0.0 if alone is None or not tracked else float((alone[0] - together[0]).abs().max())
    return moved + float(mixed > BOUND), 0, f"{moved} buffers move; an example alone differs by {mixed:.2g}"


@law
def weight_is_gain_times_direction(module: Any, batch: Batch) -> Measured | None:
    """Of weight normalization, w = ``g v / |v|``: the length of v changes nothing, and g scales all but the bias."""
    pair = _gain_and_direction(module)
    if pair is None:
        return None
    gain, direction = pair
    module, batch = doubled(module, batch)
    with torch.no_grad():
        before, zero = module(batch.x), module(torch.zeros_like(batch.x))
        direction.mul_(3)
        length = float((module(batch.x) - before).abs().max())
        gain.mul_(2)
        scale = float((module(batch.x) - zero - 2 * (before - zero)).abs().max())
    return max(length, scale), BOUND, f"tripling v moves the output by {length:.2g}; doubling g is off by {scale:.2g}"


GROUPS = (
    outputs_are_standardized_values,
    variance_becomes_one,
    epsilon_is_added_to_the_variance,
    constant_inputs_stay_finite,
    gain_and_shift_act_linearly,
    any_number_of_examples_will_do,
    running_statistics_are_means_and_variances,
    evaluation_changes_nothing,
)


def check_normalization(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of normalization in a layer that keeps the shape, or in one with normalized weights."""
    if _gain_and_direction(module) is not None:
        return outcomes((weight_is_gain_times_direction,), module, batch)
    output = answer(module, batch.x, training=True)
    if not isinstance(output, Tensor) or output.shape != batch.x.shape:
        raise UsageError(f"a normalization layer gives {tuple(batch.x.shape)} for {tuple(batch.x.shape)}")
    return outcomes(GROUPS, module, batch)


def recognize_normalization(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for a layer that is called a norm, keeps running statistics, or has an eps next to its features."""
    weights = _gain_and_direction(module) is not None
    evidence = called(module, NAME) or attribute(module, *EPSILONS, "running_var") is not None
    inner = [part for part in module.modules() if list(part.parameters(recurse=False))]
    others = [part for part in inner if part is not module and not called(part, NAME)]
    if not is_plain(module) or not (weights or (evidence and not others)):
        return None
    suits = (lambda x, y: True) if weights else keeps_shape
    x = accepted(module, given_or(batch, vectors(module)), suits)
    return None if x is None else Batch(x)


def _gain_and_direction(module: nn.Module) -> tuple[Tensor, Tensor] | None:
    """The parameters g and v of a layer with weight normalization, by their names here and in torch."""
    named = dict(module.named_parameters())
    for g, v in (("g", "v"), ("weight_g", "weight_v"), ("parametrizations.weight.original0",) * 2):
        v = v.replace("original0", "original1")
        if g in named and v in named and named[v].ndim >= 2:
            return named[g], named[v]
    return None


def _epsilon(module: nn.Module) -> float:
    """The eps of a layer or of the one that it wraps; 0 where none is named."""
    found = (attribute(part, *EPSILONS) for part in module.modules())
    return next((eps for eps in found if isinstance(eps, float)), 0.0)


def _is_constant(parameter: Tensor) -> bool:
    return bool((parameter == 0).all() or (parameter == 1).all())


def _groups(module: Any, x: Tensor) -> list[tuple[tuple[int, ...], Tensor]]:
    """Some entries of the output, each with the mask of the inputs it depends on in training."""
    module.double().train()
    random = seeded(4)
    found = []
    for _ in range(ENTRIES):
        entry = tuple(int(torch.randint(size, (1,), generator=random)) for size in x.shape)
        seen = torch.zeros(x.shape, dtype=torch.bool)
        for _ in range(2):
            inputs = torch.randn(x.shape, generator=random, dtype=torch.float64).requires_grad_()
            (slope,) = torch.autograd.grad(module(inputs)[entry], inputs)
            seen |= slope.abs() > 1e-12
        found.append((entry, seen))
    return found


def _pairs(
    module: Any, x: Tensor, entry: tuple[int, ...], group: Tensor, size: float = 1.0
) -> tuple[Tensor, list[Tensor]]:
    """One entry of the output for several inputs, and what it is without gain and shift: centered, or by the RMS."""
    random = seeded(5)
    eps = _epsilon(module)
    found, centered, plain = [], [], []
    with torch.no_grad():
        for draw in range(DRAWS):
            spread = size * (1.0 if size != 1.0 else 2.0 ** (2 * draw - 3))
            inputs = spread * (torch.randn(x.shape, generator=random, dtype=torch.float64) + 0.5)
            found.append(module(inputs)[entry].double())
            values, own = inputs[group], inputs[entry]
            centered.append((own - values.mean()) / (values.var(correction=0) + eps).sqrt())
            plain.append(own / (values.square().mean() + eps).sqrt())
    return torch.stack(found), [torch.stack(centered), torch.stack(plain)]


def _unexplained(found: Tensor, wanted: Tensor) -> float:
    """The largest residual of the regression of what was found on what is wanted, relative to the spread."""
    if not (found.isfinite().all() and wanted.isfinite().all()):
        return math.inf
    design = torch.stack([wanted, torch.ones_like(wanted)], 1)
    fit = torch.linalg.lstsq(design, found.unsqueeze(1)).solution
    return float((design @ fit - found.unsqueeze(1)).abs().max() / (1 + found.abs().max()))


def _affine(module: Any, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """The running mean and variance of each feature, read off the outputs in eval mode, if these are affine in x."""
    module.double().eval()
    if not all(_is_constant(parameter) for parameter in module.parameters()):
        return None
    zero = torch.zeros(x.shape, dtype=torch.float64)
    with torch.no_grad():
        outputs = [answer(module, zero + value) for value in (0.0, 1.0, 2.0)]
        noisy = torch.randn(x.shape, generator=seeded(6), dtype=torch.float64)
        found = answer(module, noisy)
    if found is None or any(not isinstance(output, Tensor) for output in outputs):
        return None
    shift, slope = outputs[0], outputs[1] - outputs[0]
    if (
        float((outputs[2] - shift - 2 * slope).abs().max()) > BOUND
        or float((slope * noisy + shift - found).abs().max()) > BOUND
    ):
        return None
    if float(slope.abs().min()) < 1e-9:
        return None
    first_rows = slope.transpose(0, 1).flatten(1)[:, 0], shift.transpose(0, 1).flatten(1)[:, 0]
    return -first_rows[1] / first_rows[0], first_rows[0] ** -2 - _epsilon(module)
