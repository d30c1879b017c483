"""Latents: the posterior of a variational model tells examples apart, and all posteriors together fill the prior.

Measured after a trial (or of a run's weights): the information of the best latent about the example, in nats, 1/2 log(1
+ Var mu / E sigma^2), how many latents are active (Var mu > 0.01), and how far the aggregate of all posteriors is from
the prior, the largest divergence of a latent. In posterior collapse no latent says anything, and the decoder models the
data alone; with an unused prior, samples come from where the decoder was never trained. Some inactive latents are
healthy. A model is a variational one if ``encode`` gives a distribution, or a plain module's outputs are a
reconstruction, means and log-variances, the reconstruction first or last.

The thresholds are three times outside the range of healthy trainings. A collapse is named only if a trial with a
fraction of the divergence's weight has the better bound, or, where the terms of the loss are not known, if another seed
ends there, too.

Papers: Burda et al., 2016, https://arxiv.org/abs/1509.00519; Lucas et al., 2019, https://arxiv.org/abs/1911.02469;
Hoffman and Johnson, 2016, http://approximateinference.org/accepted/HoffmanJohnson2016.pdf
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from deepcanon.core import AnyBatch, Terms
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import repaired, trained
from deepcanon.diagnosis.families.latents_used import (
    bound_of,
    deaf,
    deaf_to_draws,
    divergence_by_data,
    latents_used,
    posterior_of,
)
from deepcanon.diagnosis.given_outputs import loss_of_outputs
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "family", 20
HOLE = 1.0
"""So many nats between a latent's posteriors together and the prior are never a fault: weights below 1 are sound."""
SLIGHT = 0.3
"""So many nats show that a divergence is missing, where the loss itself says so."""
HEAVY = 2.0
"""So many times heavier than what a linear model can gain by a latent, the divergence leaves none in use."""
LIGHTER = (0.05, 5e-3, 5e-4)
"""What the divergence weighs in the trials that confirm a collapse, until one does."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    batch = patient.batch(256)
    if posterior_of(patient.model, batch) is None:
        raise Skip("it has no posterior of latents")
    if float(batch.x.float().flatten(1).var(0).max()) == 0:
        raise Skip("all examples are alike")
    found = latents_used(trained(patient), batch)
    patient.note(**found)
    information = thresholds.of("collapsed_posterior", "information")
    if found["information"] < information.low:
        confirmed = _confirmed(patient, batch, information.low)
        if confirmed:
            yield Diagnosis(
                cause="posterior collapse",
                evidence={**found, "figure": "bars", "bars": _bars(patient, batch)},
                advice="let the weight of the KL divergence grow from 0 (warm-up), lower it, and check that both terms "
                "are sums over their dimensions",
                where="all latents",
                confirmed_by=confirmed,
                margin=information.margin(found["information"]),
            )
        return
    hole = thresholds.of("collapsed_posterior", "hole")
    most = max(hole.high, HOLE)
    absent = _weightless(patient, batch)
    if found.get("hole", 0.0) > (SLIGHT if absent else most):
        again = latents_used(trained(patient, seed=1), batch)
        if absent or again["hole"] > most:
            yield Diagnosis(
                cause="prior unused",
                evidence=found,
                advice="give the KL divergence its full weight: samples come from the prior, where the decoder was "
                "never trained",
                confirmed_by="exact: the divergence has no weight in the loss"
                if absent
                else "the run's own weights"
                if patient.run is not None
                else "another seed ends there, too",
                margin=None if absent else found["hole"] / most,
            )


def _weightless(patient: Patient, batch: AnyBatch) -> bool:
    """Whether the loss has no divergence from the prior at all, also where its weight grows from 0 by the training."""
    if patient.ours is not None:
        terms = trained(patient).loss(batch)
        return "kl" in terms and float(terms["kl"]) == 0
    ratio = divergence_by_data(loss_of_outputs(patient, batch), patient.model, batch)
    return ratio is not None and abs(ratio) < 1e-6


def _confirmed(patient: Patient, batch: AnyBatch, low: float) -> str:
    model = patient.ours
    if model is not None and deaf(trained(patient), batch):
        return "exact: the decoder gives the same for all latents"
    if model is not None and "kl" in model.loss(batch):
        before = bound_of(trained(patient), batch)
        for weight in LIGHTER:
            change = Change(f"{weight:g} of the divergence", on_model=partial(_lighten, weight))
            gain = bound_of(repaired(patient, change), batch) - before
            if gain > 1:
                return f"with {weight:g} of the divergence the bound is {gain:.3g} nats better"
        return ""
    if model is None and deaf_to_draws(trained(patient), batch):
        return "exact: the decoder gives the same for all latents"
    if model is None:
        ratio = divergence_by_data(loss_of_outputs(patient, batch), patient.model, batch)
        if ratio is not None and ratio > HEAVY and latents_used(trained(patient, seed=1), batch)["information"] < low:
            return f"the divergence weighs {ratio:.3g} times what a first latent can gain"
    return "the run's own weights" if patient.run is not None else ""


def _lighten(weight: float, model: nn.Module) -> None:
    model.loss = partial(_lighter, weight, type(model).loss, model)  # type: ignore[attr-defined,assignment]


def _lighter(weight: float, loss: Any, model: Any, batch: Any) -> Terms:
    return {name: weight * term if name == "kl" else term for name, term in loss(model, batch).items()}


@torch.no_grad()
def _bars(patient: Patient, batch: AnyBatch) -> dict[str, float]:
    posterior = posterior_of(trained(patient), batch)
    assert posterior is not None
    spread = posterior.mean.flatten(1).double().var(0)
    return {f"latent {number}": float(value) for number, value in enumerate(spread[:32], 1)}
