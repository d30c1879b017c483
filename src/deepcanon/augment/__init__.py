"""Data augmentation: motions and perturbations of whole batches, drawn from counters."""

from deepcanon.augment.counters import mixed, uniforms, unit
from deepcanon.augment.motions import Augment, Motion
from deepcanon.augment.perturbations import contrasted, cut_out, flipped, noisy, shifted, strongly, weakly
from deepcanon.augment.views import viewed
from deepcanon.lazy import listing

__all__ = [
    "Augment",
    "Motion",
    "contrasted",
    "cut_out",
    "flipped",
    "mixed",
    "noisy",
    "shifted",
    "strongly",
    "uniforms",
    "unit",
    "viewed",
    "weakly",
]
__dir__ = listing(__name__)
