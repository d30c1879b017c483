"""Embeddings: examples that differ have embeddings that differ.

Measured after a trial (or of a run's weights): the standard deviation of the embeddings on the unit sphere (0 where all
point the same way), the number of dimensions that they use (effective rank), and their spread by that before the
training. In a collapse all examples get the same embedding, for which a loss without negative examples is zero. It is
looked for where a model learns features without labels: ``embeddings`` of views, or ``encode`` to one vector each with
a loss that does not measure the fit. The thresholds are three times outside the range of healthy trainings, and another
seed must end there, too.

Papers: Chen and He, 2021, https://arxiv.org/abs/2011.10566; Jing et al., 2022, https://arxiv.org/abs/2110.09348
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from deepcanon.core import AnyBatch
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, trained
from deepcanon.diagnosis.families.embedding_spread import embedded, embedding_spread, learns_features
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 20
LEAST = 20
"""Embeddings that collapse do so from the first steps on."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if not learns_features(ours(patient)):
        raise Skip("it learns no embeddings without labels")
    batch = patient.batch(256)
    start = _rows(patient.twin(), batch)
    found = _measured(trained(patient, least=LEAST), batch, start)
    patient.note(**found)
    outside = _outside(found)
    if outside and _outside(_measured(trained(patient, seed=1, least=LEAST), batch, start)):
        yield Diagnosis(
            cause="representation collapse",
            evidence=found,
            advice="push different examples apart: by negative examples, a stopped gradient with a predictor, or a "
            "term on the variance",
            where="embeddings",
            confirmed_by="the run's own weights" if patient.run is not None else "another seed ends there, too",
            margin=max(outside.values()),
        )


def _rows(model: object, batch: AnyBatch) -> Tensor:
    rows = embedded(model, batch)
    if rows is None:
        raise Skip("it gives no vector for each example")
    return rows


def _measured(model: nn.Module, batch: AnyBatch, start: Tensor) -> dict[str, float]:
    found = embedding_spread(_rows(model.eval(), batch))
    rows = _rows(model.train(), batch)  # in eval mode a batch normalization that was not trained hides the scale
    return {**found, "scale": float(rows.var(0).sum().sqrt() / start.var(0).sum().sqrt().clamp_min(1e-30))}


def _outside(found: dict[str, float]) -> dict[str, float]:
    limits = {name: thresholds.of("spread_embeddings", name) for name in ("spread", "scale")}
    return {name: limit.margin(found[name]) for name, limit in limits.items() if found[name] < limit.low}
