"""Base rates of binary data, with which models of such data initialize their biases."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from deepcanon.core import Batch
from deepcanon.core.checks import flat, only_binary


@torch.no_grad()
def log_odds(data: Iterable[Batch], features: int, model: str) -> Tensor:
    """The log-odds (logits) of each feature to be 1, (features,), with add-one smoothing.

    Data that hold other values than 0 and 1 are refused in the name of the ``model``.

    >>> log_odds([Batch(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))], features=2, model="bernoulli").sigmoid()
    tensor([0.2500, 0.5000])
    """
    on, count = torch.zeros(features), 0
    for batch in data:
        only_binary(batch.x, model)
        on, count = on.to(batch.x) + flat(batch.x, features).sum(0), count + len(batch)
    return ((on + 1) / (count - on + 1)).log()
