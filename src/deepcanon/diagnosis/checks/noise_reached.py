"""Noise: a diffusion process ends where nothing of the data is left, and denoising works at all of its levels.

Measured: the nats about a value that are left where sampling starts, 1/2 log(1 + signal^2 / noise^2), how often the
signal grows from a timestep to the next, and, after a trial (or of a run's weights), the error of the reverse process
at eight timesteps by that of one that always predicts the mean of the data, to which the variance of the step is added.
Sampling starts from pure noise; where the data are still seen there, it starts from what the network has never met. The
threshold of the noise is three times above what the catalogue's schedules leave; that of the errors, above what healthy
trials have.

Papers: Lin et al., 2024, https://arxiv.org/abs/2305.08891; Song and Ermon, 2020, https://arxiv.org/abs/2006.09011
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, trained
from deepcanon.diagnosis.families.noise_levels import denoising, has_timesteps, noise_left
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip

STAGE, PLACE = "family", 6


def check(patient: Patient) -> Iterator[Diagnosis]:
    model = copy.deepcopy(ours(patient)).eval()
    batch = patient.batch(256)
    found = noise_left(model, batch)
    if found is None:
        raise Skip("it adds no noise level by level")
    patient.note(**found)
    limit = thresholds.of("noise_reached", "left")
    if found["left"] > limit.high or found["grows"]:
        yield Diagnosis(
            cause="schedule does not reach noise",
            evidence=found,
            advice="let the noise grow at every level, until the data have no part in what sampling starts from",
            where="the last noise level" if not found["grows"] else "the order of the levels",
            confirmed_by="exact: the variances of the process itself",
            margin=limit.margin(found["left"]) if not found["grows"] else None,
        )
        return
    if not has_timesteps(model):
        return
    errors = denoising(trained(patient), batch)
    patient.note(**errors)
    worst = thresholds.of("noise_reached", "worst")
    if errors["worst"] > worst.high and denoising(trained(patient, seed=1), batch)["worst"] > worst.high:
        yield Diagnosis(
            cause="denoising fails at some timesteps",
            evidence=errors,
            advice="check that the network is given the timestep, and that what it predicts is scaled by its noise",
            where="timesteps",
            confirmed_by="the mean of the data predicts better there",
            margin=worst.margin(errors["worst"]),
        )
