"""The mu-law: waveforms as tokens, whose steps are finer where a wave is quiet."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deepcanon.core import DataError
from deepcanon.core.checks import at_least


def to_mu_law(wave: Tensor, levels: int = 256) -> Tensor:
    r"""The tokens, from 0 to ``levels - 1``, of a wave with values from -1 to 1.

    .. math:: f(x) = \operatorname{sign}(x) \frac{\ln(1 + \mu |x|)}{\ln(1 + \mu)}, \qquad \mu = \text{levels} - 1

    The tokens are those of equal steps of f.

    References:
        | Pulse Code Modulation (PCM) of Voice Frequencies, Recommendation G.711 (CCITT, 1988),
          https://www.itu.int/rec/T-REC-G.711

    >>> to_mu_law(torch.tensor([-1.0, -0.01, 0.0, 0.01, 1.0]))
    tensor([  0,  98, 128, 157, 255])
    """
    at_least(2, levels=levels)
    if not bool(((wave >= -1) & (wave <= 1)).all()):
        raise DataError("a wave has values from -1 to 1: divide it by its largest one first")
    mu = levels - 1
    bent = wave.sign() * (mu * wave.abs()).log1p() / math.log1p(mu)
    return ((bent + 1) / 2 * mu + 0.5).long()


def from_mu_law(tokens: Tensor, levels: int = 256) -> Tensor:
    """The values from -1 to 1 that tokens stand for.

    >>> from_mu_law(torch.tensor([0, 128, 255]), 256)
    tensor([-1.0000e+00,  8.6213e-05,  1.0000e+00])
    """
    mu = levels - 1
    bent = 2 * tokens.to(torch.get_default_dtype()) / mu - 1
    return bent.sign() * (bent.abs() * math.log1p(mu)).expm1() / mu
