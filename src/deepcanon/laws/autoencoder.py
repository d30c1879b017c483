"""The laws of autoencoders: modules with an encoder ``encode``, from examples to codes, and a decoder ``decode``.

``reconstruct``, or else ``forward``, encodes and decodes. A code is a tensor, or a distribution of which the mean
counts.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from deepcanon.core import Batch, UsageError
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.probe import TIGHT, distance, doubled, first, seeded, total
from deepcanon.laws.slope import slopes

ROWS = 4


@law
def codes_and_reconstructions_have_their_shapes(module: Any, batch: Batch) -> Measured:
    """Each example has one finite code, and each code decodes to one finite example of as many values."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        z = code(module, batch.x)
        x = decoded(module, z)
    wanted = (len(batch.x), batch.x[0].numel())
    if len(z) != wanted[0] or tuple(x.flatten(1).shape) != wanted:
        shapes = f"give codes {tuple(z.shape)} and reconstructions {tuple(x.shape)}"
        return 1, 0, f"{wanted[0]} examples of {wanted[1]} values {shapes}"
    bad = sum(int((~part.isfinite()).sum()) for part in (z, x))
    return bad, 0, f"codes of {z[0].numel()} values for examples of {wanted[1]}; {bad} values are not finite"


@law
def reconstruction_is_decoding_the_code(module: Any, batch: Batch) -> Measured | None:
    """``reconstruct`` and ``forward``, where there are any, are ``decode`` of ``encode``."""
    module, batch = doubled(module, batch)
    ways: dict[str, Any] = {"reconstruct": module.reconstruct} if hasattr(module, "reconstruct") else {}
    if type(module).forward is not nn.Module.forward:
        ways["forward"] = module
    worst = 0.0
    with torch.no_grad():
        back = decoded(module, code(module, batch.x)).flatten(1)
        for way in ways.values():
            worst = _larger(worst, distance(way(batch.x).flatten(1), back))
    return (worst, TIGHT, f"{' and '.join(ways)} compared with decode of encode") if ways else None


@law
def decoding_needs_the_code_alone(module: Any, batch: Batch) -> Measured:
    """What a code decodes to does not depend on what was encoded last: nothing bypasses the code."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        z = code(module, batch.x)
        before = decoded(module, z)
        code(module, torch.randn(batch.x.shape, dtype=batch.x.dtype, generator=seeded(0)))
        gap = distance(decoded(module, z), before)
    return gap, 0, "the same codes decoded before and after other examples were encoded"


@law
def same_input_same_code(module: Any, batch: Batch) -> Measured:
    """In eval mode encoder and decoder are deterministic: nothing is random and nothing is remembered."""
    module.eval()
    worst = 0.0
    with torch.no_grad():
        torch.manual_seed(1)
        z = code(module, batch.x)
        x = decoded(module, z)
        torch.manual_seed(2)
        worst = _larger(distance(code(module, batch.x), z), distance(decoded(module, z), x))
    return worst, 0, "two passes over the same batch"


@law
def examples_do_not_mix(module: Any, batch: Batch) -> Measured | None:
    """In eval mode an example has the code and the reconstruction that it has alone, even next to a broken one."""
    if len(batch) < 2:
        return None
    module, batch = doubled(module, batch)
    worst, where = 0.0, "alone and in the batch they agree"
    with torch.no_grad():
        together = _both(module, batch.x)
        for i in range(min(ROWS, len(batch))):
            x = torch.full_like(batch.x, math.nan)
            x[i] = batch.x[i]
            for parts, row, how in (
                (_both(module, batch.x[i : i + 1]), 0, "alone"),
                (_both(module, x), i, "next to broken ones"),
            ):
                gap = distance([part[row] for part in parts], [part[i] for part in together])
                if not gap <= worst:
                    worst, where = gap, f"example {i} moves by {gap:.2g} when it is {how}"
    return worst, TIGHT, where


@law
def bottleneck_limits_the_rank(module: Any, batch: Batch) -> Measured | None:
    """The reconstruction varies in no more directions than the code has values: the rank of its Jacobian says so."""
    module, batch = doubled(module, batch)
    with torch.no_grad():
        size = code(module, batch.x)[0].numel()
    values = batch.x[0].numel()
    if size >= values:
        return None
    excess = 0.0
    for x in first(batch, ROWS).x:
        jacobian = torch.autograd.functional.jacobian(partial(_reconstructed, module, x.shape), x.flatten())
        spectrum = torch.linalg.svdvals(jacobian)
        excess = _larger(excess, float(spectrum[size] / spectrum[0].clamp_min(1e-12)))
    where = f"beyond these the largest singular value is {excess:.2g} of the first"
    return excess, TIGHT, f"{values} values through a code of {size}: {where}"


@law
def gradient_is_the_slope(module: Any, batch: Batch) -> Measured | None:
    """The gradient of the loss agrees with central differences; that of a tied weight is the sum over both its uses."""
    if not hasattr(module, "loss"):
        return None
    module, batch = doubled(module, batch)
    return slopes(module, lambda: _loss(module, batch))


@law
def learns_two_examples_by_heart(module: Any, batch: Batch) -> Measured | None:
    """One number distinguishes two examples, so a trained autoencoder reconstructs them far better than their mean."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not hasattr(module, "loss") or not trainable or len(batch) < 2:
        return None
    module, batch = doubled(module, batch)
    two = _farthest_pair(batch)
    baseline = float((two.x - two.x.mean(0)).square().mean())  # the error of predicting the mean
    if baseline == 0:
        return None
    reached = math.inf
    for rate in (1e-2, 1e-3, 1e-1):
        reached = min(reached, _learn(copy.deepcopy(module), two, rate, enough=0.02 * baseline) / baseline)
        if reached <= 0.05:
            break
    return reached, 0.1, f"the squared error is {reached:.2g} of that of the mean"


LAWS = (
    codes_and_reconstructions_have_their_shapes,
    reconstruction_is_decoding_the_code,
    decoding_needs_the_code_alone,
    same_input_same_code,
    examples_do_not_mix,
    bottleneck_limits_the_rank,
    gradient_is_the_slope,
    learns_two_examples_by_heart,
)


def check_autoencoder(module: nn.Module, batch: Batch) -> list[Outcome]:
    """The outcomes of the laws of autoencoders in any module with ``encode`` and ``decode``."""
    missing = [method for method in ("encode", "decode") if not callable(getattr(module, method, None))]
    if missing:
        raise UsageError(f"an autoencoder has encode and decode; {', '.join(missing)} is missing")
    return outcomes(LAWS, module, batch)


def code(module: Any, x: Tensor) -> Tensor:
    """The code of each example: the output of ``encode``, or its mean where that is a distribution."""
    return _mean(module.encode(x))


def decoded(module: Any, z: Tensor) -> Tensor:
    """The reconstructions from codes: the output of ``decode``, or its mean where that is a distribution."""
    return _mean(module.decode(z))


def _mean(output: Distribution | Tensor) -> Tensor:
    return output.mean if isinstance(output, Distribution) else output


def _both(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    z = code(module, x)
    return z, decoded(module, z)


def _reconstructed(module: Any, shape: torch.Size, values: Tensor) -> Tensor:
    """The reconstruction of one example, flat, by ``reconstruct`` where the module has it."""
    x = values.reshape(1, *shape)
    own = getattr(module, "reconstruct", None)
    reconstruction: Tensor = own(x) if own is not None else decoded(module, code(module, x))
    return reconstruction.flatten()


def _loss(module: Any, batch: Batch) -> Tensor:
    """The loss; what is random in it is always the same."""
    torch.manual_seed(0)
    return total(module.loss(batch))


def _farthest_pair(batch: Batch) -> Batch:
    few = first(batch, 32)
    apart = torch.cdist(few.x.flatten(1), few.x.flatten(1))
    return few.select(torch.tensor(divmod(int(apart.argmax()), len(few))))


def _learn(module: Any, batch: Batch, rate: float, enough: float, steps: int = 400) -> float:
    """Train by Adam on one batch; the squared error in eval mode at the end, or as soon as it is ``enough``."""
    optimizer = torch.optim.Adam([parameter for parameter in module.parameters() if parameter.requires_grad], lr=rate)
    reached = math.inf
    for step in range(1, steps + 1):
        module.train()
        optimizer.zero_grad()
        total(module.loss(batch)).backward()
        optimizer.step()
        if step % 20 == 0:
            module.eval()
            with torch.no_grad():
                reached = float((_both(module, batch.x)[1].flatten(1) - batch.x.flatten(1)).square().mean())
            if reached <= enough:
                break
    return reached


def _larger(left: float, right: float) -> float:
    """The larger of two gaps, where one that is not a number counts as the largest."""
    return left if left >= right or math.isnan(left) else right
