"""Embeddings: examples that differ have embeddings that differ.

Measured after a trial (or of a run's weights): the standard deviation of the embeddings on the unit sphere (0 where all
point the same way), the number of dimensions that they use (effective rank), and their spread by that before the
training. In a collapse all examples get the same embedding, for which a loss without negative examples is zero. It is
looked for where a model learns features without labels: ``embeddings`` of views, or ``encode`` to one vector each with
a loss that does not measure the fit; and where a step of one's own trains a plain module to give each example without
label a vector, whose spread must have shrunk ten times as far. The thresholds are three times outside the range of
healthy trainings, and another seed must end there, too. Embeddings a hundred times beyond the largest scale of healthy
trainings, for two seeds, which a lower rate brings back, are those of too high a learning rate.

Papers: Chen and He, 2021, https://arxiv.org/abs/2011.10566; Jing et al., 2022, https://arxiv.org/abs/2110.09348
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Model
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, repaired, trained
from deepcanon.diagnosis.families.embedding_spread import embedded, embedding_spread, learns_features
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repairs import times

STAGE, PLACE = "family", 20
FAR = 10.0
"""The vectors of a plain module have collapsed if their spread is so many times less than any healthy one."""
BLOWN = 100.0
LOWER = (0.1, 0.01, 1e-3, 1e-4)
LEAST = 20
"""Embeddings that collapse do so from the first steps on."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    plain = patient.ours is None
    if not (_embeds_by_step(patient) if plain else learns_features(ours(patient))):
        raise Skip("it learns no embeddings without labels")
    batch = patient.batch(256)
    start = _rows(patient.twin(), batch)
    found = _measured(trained(patient, least=LEAST), batch, start)
    patient.note(**found)
    outside = _outside(found, plain)
    if outside and _outside(_measured(trained(patient, seed=1, least=LEAST), batch, start), plain):
        yield Diagnosis(
            cause="embedding collapse",
            evidence=found,
            advice="push different examples apart: by negative examples, a stopped gradient with a predictor, or a "
            "term on the variance",
            where="embeddings",
            confirmed_by="the run's own weights" if patient.run is not None else "another seed ends there, too",
            margin=max(outside.values()),
        )
    elif found["scale"] > BLOWN * thresholds.of("spread_embeddings", "scale").high:
        yield from _too_fast(patient, batch, start, found["scale"])


def _too_fast(patient: Patient, batch: AnyBatch, start: Tensor, scale: float) -> Iterator[Diagnosis]:
    """Embeddings that are blown up, where those of a lower rate are not."""
    limit = thresholds.of("spread_embeddings", "scale")
    again = _measured(trained(patient, seed=1, least=LEAST), batch, start)["scale"]
    if patient.run is not None or again <= BLOWN * limit.high:
        return
    for factor in LOWER:
        calm = _measured(repaired(patient, times(factor), least=LEAST), batch, start)["scale"]
        if limit.low <= calm <= limit.high:
            yield Diagnosis(
                cause="learning rate too high",
                evidence={"rate": patient.rate, "scale": scale, "scale_with_a_lower_rate": calm},
                advice=f"lower it: {patient.rate * factor:.2g} does well here",
                where="optimizer",
                confirmed_by=f"two seeds end there, and with {times(factor).words} embeddings keep their scale",
                margin=scale / limit.high,
                change=patient.setting(lr=patient.rate * factor),
            )
            return


def _embeds_by_step(patient: Patient) -> bool:
    """Whether a step of the user's own trains a plain module to give each example without label a vector."""
    return patient.step is not None and patient.task == "none" and not patient.is_game


def _rows(model: nn.Module, batch: AnyBatch) -> Tensor:
    rows = embedded(model, batch) if isinstance(model, Model) else _vectors(model, batch)
    if rows is None:
        raise Skip("it gives no vector for each example")
    return rows


def _measured(model: nn.Module, batch: AnyBatch, start: Tensor) -> dict[str, float]:
    found = embedding_spread(_rows(model.eval(), batch))
    rows = _rows(model.train(), batch)  # in eval mode a batch normalization that was not trained hides the scale
    return {**found, "scale": float(rows.var(0).sum().sqrt() / start.var(0).sum().sqrt().clamp_min(1e-30))}


@torch.no_grad()
def _vectors(model: nn.Module, batch: AnyBatch) -> Tensor | None:
    """The outputs of a plain module, where they are one vector for each example, and no reconstruction of it."""
    found = model(*batch.inputs)
    if not isinstance(found, Tensor) or found.ndim != 2 or len(found) != len(batch) or found.shape == batch.x.shape:
        return None
    return found.double() if found.is_floating_point() and found.shape[1] > 1 else None


def _outside(found: dict[str, float], plain: bool) -> dict[str, float]:
    """What lies outside; of a plain module, whose vectors may begin alike or shrink, the scale by far."""
    limits = {name: thresholds.of("spread_embeddings", name) for name in ("spread", "scale")}
    if plain and found["scale"] >= limits["scale"].low / FAR:
        return {}
    return {name: limit.margin(found[name]) for name, limit in limits.items() if found[name] < limit.low}
