"""Likelihood of own samples: data are not far more probable to a model than what it draws itself.

Measured after a trial (or of a run's weights), where the likelihood is exact: the mean log-likelihood of data less that
of own samples, in standard deviations of the latter. It is near zero of a good fit. Far above, the likelihood knows
what it must not (a leak, or a density that is not normalized), or the sampler is not that of the density; far below,
most of the density lies where no data are. The thresholds are three times outside the range of healthy trainings, and
another seed must end there, too.

Papers: Theis et al., 2016, https://arxiv.org/abs/1511.01844
"""

from __future__ import annotations

from collections.abc import Iterator

from deepcanon.core import Batch
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, trained
from deepcanon.diagnosis.families.own_samples import own_samples, scores_own_samples
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 30
LEAST = 3.0
"""So many standard deviations are never a fault."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(64)
    if not scores_own_samples(ours(patient)) or not isinstance(batch, Batch) or not batch.x.is_floating_point():
        raise Skip("it has no exact likelihood of samples that it draws")
    found = own_samples(trained(patient), batch)
    patient.note(above=max(0.0, found["surprise"]), below=max(0.0, -found["surprise"]))
    side = "above" if found["surprise"] > 0 else "below"
    limit = thresholds.of("own_likelihood", side)
    value, most = abs(found["surprise"]), max(limit.high, LEAST)
    if value <= most:
        return
    again = own_samples(trained(patient, seed=1), batch)["surprise"]
    if abs(again) > most and (again > 0) == (found["surprise"] > 0):
        yield Diagnosis(
            cause="sampler and likelihood disagree" if side == "above" else "density off data",
            evidence=found,
            advice="draw samples by the conditionals, or the inverse of the map, that the likelihood is computed by"
            if side == "above"
            else "check the terms of the likelihood: most of what the model draws is unlike the data",
            where="sample and log_prob",
            confirmed_by="the run's own weights" if patient.run is not None else "another seed ends there, too",
            margin=value / most,
        )
