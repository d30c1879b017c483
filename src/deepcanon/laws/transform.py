r"""The laws of invertible transforms: layers of flows that give ``(z, log_det)`` for x and have an ``inverse``.

``log_det`` is :math:`\log |\det dz/dx|` of each example, (B,). Of an affine coupling :math:`z = F(x') x'' + H(x')` it
is :math:`\sum \log |F|`, and the inverse is :math:`(z'' - H(x')) / F(x')`; of a 1x1 convolution of images it is
:math:`h w \log |\det W|`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Batch, UsageError
from deepcanon.laws.classifier import stirred
from deepcanon.laws.outcome import Measured, Outcome, law, outcomes
from deepcanon.laws.parts import answer, is_plain, widths
from deepcanon.laws.probe import distance, doubled, first, seeded

ROWS, SIDE = 4, 4
MOST = 256
"""The largest number of values of an example, of which the Jacobian has the square."""


@law
def the_inverse_inverts(module: Any, batch: Batch) -> Measured:
    """Examples come back from their images."""
    module, batch = _prepared(module, batch)
    with torch.no_grad():
        z, _ = module(batch.x)
        back = _inverted(module, z)
    gap = distance(back.reshape(batch.x.shape), batch.x)
    gap = math.inf if math.isnan(gap) else gap
    return gap, 1e-5, f"{len(batch)} examples come back with an error of {gap:.2g}"


@law
def log_det_is_that_of_the_jacobian(module: Any, batch: Batch) -> Measured:
    """The log-determinant of each example is that of the Jacobian that autograd finds."""
    module, batch = _prepared(module, batch)
    found = module(batch.x)[1].detach()
    wanted = []
    for row in batch.x:
        jacobian = torch.autograd.functional.jacobian(lambda one: module(one.unsqueeze(0))[0].flatten(), row)
        wanted.append(torch.linalg.slogdet(jacobian.reshape(row.numel(), row.numel())).logabsdet)
    gap = float((found.reshape(-1) - torch.stack(wanted)).abs().max())
    size = 1 + float(torch.stack(wanted).abs().max())
    return (math.inf if math.isnan(gap) else gap), 1e-6 * size, f"{len(wanted)} log-determinants; off by {gap:.2g}"


@law
def the_inverse_has_the_opposite_log_det(module: Any, batch: Batch) -> Measured | None:
    """Where the inverse gives a log-determinant, too, it is minus that of the map."""
    module, batch = _prepared(module, batch)
    with torch.no_grad():
        z, there = module(batch.x)
        back = module.inverse(z)
    if not isinstance(back, tuple):
        return None
    gap = distance(-back[1], there)
    return gap, 1e-6, f"the two log-determinants add up to {gap:.2g}"


@law
def examples_do_not_mix(module: Any, batch: Batch) -> Measured:
    """The image of an example and its log-determinant are those that it has alone."""
    module, batch = _prepared(module, batch)
    with torch.no_grad():
        together, alone = module(batch.x), module(batch.x[:1])
    gap = max(distance(alone[0][0], together[0][0]), distance(alone[1].reshape(-1)[0], together[1].reshape(-1)[0]))
    return gap, 1e-9, f"alone, an example is off by {gap:.2g}"


LAWS = (
    the_inverse_inverts,
    log_det_is_that_of_the_jacobian,
    the_inverse_has_the_opposite_log_det,
    examples_do_not_mix,
)


def check_transform(module: nn.Module, batch: AnyBatch) -> list[Outcome]:
    """The outcomes of the laws of invertible transforms in any module with ``forward`` and ``inverse``."""
    if not callable(getattr(module, "inverse", None)) or not _is_pair(answer(module, batch.x), batch.x):
        raise UsageError("an invertible transform gives (z, log_det) for x, and has inverse(z)")
    return outcomes(LAWS, module, batch)


def recognize_transform(module: nn.Module, batch: AnyBatch | None) -> AnyBatch | None:
    """Examples for a module that has an inverse and gives an image and one number for each example."""
    if not is_plain(module) or not callable(getattr(module, "inverse", None)):
        return None
    tried = []
    for width in (*widths(module), 4, 6):
        tried += [torch.randn(ROWS, *shape, generator=seeded(0)) for shape in ((width, SIDE, SIDE), (width,))]
    suits = [x for x in ([batch.x] if batch is not None else tried) if _is_pair(answer(module, x), x)]
    small = [x for x in suits if x[0].numel() <= MOST] or suits
    # a map of vectors may happen to take images, which its inverse then does not
    both = [x for x in small if _comes_back(module, x)]
    return Batch((both or small)[0]) if small else None


def _comes_back(module: Any, x: Tensor) -> bool:
    try:
        with torch.no_grad():
            _inverted(module, answer(module, x)[0])
    except Exception:  # whatever a stranger's inverse raises
        return False
    return True


def _is_pair(output: Any, x: Tensor) -> bool:
    if not isinstance(output, tuple) or len(output) != 2 or not all(isinstance(part, Tensor) for part in output):
        return False
    return bool(output[0].numel() == x.numel() and output[1].numel() == len(x))


def _inverted(module: Any, z: Tensor) -> Tensor:
    back = module.inverse(z)
    found: Tensor = back[0] if isinstance(back, tuple) else back
    return found


def _prepared(module: Any, batch: Batch) -> tuple[Any, Batch]:
    return doubled(stirred(module), first(batch, ROWS))
