"""Likelihood of images in bits per dimension."""

from __future__ import annotations

import math

from deepcanon.core import Terms


def bits_per_dim(metrics: Terms, dimensions: int, levels: int | None) -> Terms:
    """The metrics, with the ``nll`` of an example also in bits per dimension, where its gray levels are known.

    It is the negative log-likelihood of gray levels that were dequantized and scaled to (0, 1).

    References:
        | A note on the evaluation of generative models (Theis et al., 2016), https://arxiv.org/abs/1511.01844

    >>> import torch
    >>> bits_per_dim({"nll": torch.tensor(0.0)}, dimensions=64, levels=16)["bits_per_dim"]  # a uniform density
    tensor(4.)
    """
    if levels is None or "nll" not in metrics:
        return metrics
    return {**metrics, "bits_per_dim": metrics["nll"] / (dimensions * math.log(2)) + math.log2(levels)}
