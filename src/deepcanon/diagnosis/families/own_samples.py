"""Own samples under the model's own likelihood: as probable as the model says that they are."""

from __future__ import annotations

from typing import Any

import torch

from deepcanon.core import AnyBatch, given_batch


def scores_own_samples(model: Any) -> bool:
    """Whether a model draws samples and has an exact likelihood, of which both can be had."""
    return (
        all(callable(getattr(model, name, None)) for name in ("sample", "log_prob"))
        and getattr(model, "likelihood_kind", "exact") == "exact"
    )


@torch.no_grad()
def own_samples(model: Any, batch: AnyBatch, draws: int = 64) -> dict[str, float]:
    """The log-likelihood of data less that of own samples, for each value; far above 0 is a leak, far below a bad fit.

    ``surprise`` is the same in standard deviations of the log-likelihood of own samples.
    """
    model = given_batch(model, batch)
    rows = batch.x
    data = model.log_prob(rows).double()
    own = model.sample(len(rows)).reshape(rows.shape)[:draws] if draws < len(rows) else model.sample(len(rows))
    drawn = model.log_prob(own.reshape(-1, *rows.shape[1:]).to(rows.dtype)).double()
    size = rows[0].numel()
    return {
        "excess": float((data.mean() - drawn.mean()) / size),
        "surprise": float((data.mean() - drawn.mean()) / drawn.std().clamp_min(1e-6)),
    }
