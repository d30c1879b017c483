"""Losses that are not a negative log-likelihood."""

from deepcanon.lazy import listing
from deepcanon.losses.crps import crps, quantile_loss
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.losses.fisher_divergence import fisher_divergence
from deepcanon.losses.hinge import hinge
from deepcanon.losses.kl_divergence import kl_divergence
from deepcanon.losses.nt_xent import nt_xent
from deepcanon.losses.quadratic_cost import quadratic_cost
from deepcanon.losses.zero_one import zero_one

__all__ = [
    "crps", "energy_distance", "fisher_divergence", "hinge", "kl_divergence", "nt_xent", "quadratic_cost",
    "quantile_loss", "zero_one",
]  # fmt: skip
__dir__ = listing(__name__)
