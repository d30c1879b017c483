"""Losses that are not a negative log-likelihood."""

from deepcanon.lazy import listing
from deepcanon.losses.crps import crps, quantile_loss
from deepcanon.losses.energy_distance import energy_distance
from deepcanon.losses.fisher_divergence import fisher_divergence
from deepcanon.losses.hinge import hinge
from deepcanon.losses.zero_one import zero_one

__all__ = ["crps", "energy_distance", "fisher_divergence", "hinge", "quantile_loss", "zero_one"]
__dir__ = listing(__name__)
