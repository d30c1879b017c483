"""A game: the discriminator does not win for good, the generator's gradient stays, and samples are as varied as data.

Measured after a trial (or of a run's weights): how often the discriminator ranks data above samples (AUC; 0.5 where it
cannot tell them apart), the gradient of the generator compared with that at the start, the spread of samples by that of
the data, the share of 20 cells of the data (k-means) that samples miss, and the share of the data that lies beyond all
samples along a principal axis. A game is a model with two turns that descend at the same time on parameters of their
own, and with ``sample``.

A discriminator that tells all apart is healthy for a while. It is a fault if the generator's gradient has vanished as
well, or if the samples came no nearer to the data in all of the trial (energy distance), for two seeds, unless they are
all one point, which is easy to tell apart because of that. The rate is too high if samples end further from the data
than they began and spread three times as wide as in healthy trainings, or the generator's gradient is thirty times the
largest there, for two seeds, and with a lower rate the samples come twice as near. Modes are dropped if samples spread
over less than a third of what they do in healthy trainings, or leave out three times as much; or if the samples come no
nearer to the data than a third of what they do there and leave out much.

Papers: Goodfellow et al., 2014, https://arxiv.org/abs/1406.2661; Arjovsky and Bottou, 2017,
https://arxiv.org/abs/1701.04862; Székely and Rizzo, 2013, https://doi.org/10.1016/j.jspi.2013.03.018
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from deepcanon.core import AnyBatch, given_batch
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours, repaired, trained
from deepcanon.diagnosis.families.game_state import generator_gradient, generator_turn, is_game, told_apart, variety
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repairs import times
from deepcanon.losses.energy_distance import energy_distance

STAGE, PLACE = "family", 20
SURE = 0.999
"""The AUC from which the discriminator tells all apart."""
MISSED = 0.3
"""What samples of a game that does not come nearer to the data leave out, where modes are dropped."""
VARIETY = ("spread", "missed", "outside")
POINT = 0.01
"""Samples that spread less than this share of what the data do are one point: the noise is not used."""
LOWER = (0.1, 0.01, 1e-3)
WILD = 10.0
"""A gradient of the generator so many times beyond the threshold is that of a game out of control."""
NEARER = 0.8
"""The samples came nearer if their distance to the data is less than this share of what it was."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    model = ours(patient)
    if not is_game(model):
        raise Skip("it is not a game of two players")
    batch = patient.batch(512)
    seeds = (0,) if patient.run is not None else (0, 1)
    found = _measured(patient, batch, 0)
    patient.note(**found)
    if _vanished(found) and all(_vanished(_measured(patient, batch, seed)) for seed in seeds[1:]):
        limit = thresholds.of("game_of_two", "gradient")
        yield Diagnosis(
            cause="vanishing generator gradient",
            evidence=found,
            advice="train the generator on -log D(G(z)) (the non-saturating loss), or the discriminator more slowly",
            where="generator",
            confirmed_by=_words(patient),
            margin=limit.margin(found["gradient"]),
        )
        return
    if _wild(found) and all(_wild(_measured(patient, batch, seed)) for seed in seeds[1:]):
        too_fast = list(_too_fast(patient, batch, found))
        yield from too_fast
        if too_fast:
            return
    one_point = max(_measured(patient, batch, seed)["spread"] for seed in seeds) < POINT
    if not one_point and _won(found) and all(_won(_measured(patient, batch, seed)) for seed in seeds[1:]):
        yield Diagnosis(
            cause="discriminator wins",
            evidence=found,
            advice="lower the discriminator's learning rate or its number of steps, or give the generator more of both",
            where="discriminator",
            confirmed_by=_words(patient),
        )
        return
    if _dropped(found) and all(_dropped(_measured(patient, batch, seed)) for seed in seeds[1:]):
        yield Diagnosis(
            cause="mode dropping" + (", mode collapse" if found["spread"] < _narrowest() else ""),
            evidence=found,
            advice="lower the learning rate, and check that the generator uses all of its noise",
            where="samples",
            confirmed_by=_words(patient),
            margin=max(thresholds.of("game_of_two", name).margin(found[name]) for name in VARIETY),
        )


def _too_fast(patient: Patient, batch: AnyBatch, found: dict[str, float]) -> Iterator[Diagnosis]:
    """Samples that were thrown far away, where those of a lower rate come nearer to the data."""
    before = _distance(patient.twin(), batch)
    for factor in LOWER if patient.run is None else ():
        calm = _distance(repaired(patient, times(factor)), batch) / max(before, 1e-12)
        if calm < min(NEARER, found["nearer"] / 2):
            yield Diagnosis(
                cause="learning rate too high",
                evidence={"rate": patient.rate, **found, "nearer_with_a_lower_rate": calm},
                advice=f"lower it: {patient.rate * factor:.2g} does well here",
                where="optimizer",
                confirmed_by=f"two seeds end there, and with {times(factor).words} the samples come nearer to the data",
                margin=found["spread"] / thresholds.of("game_of_two", "spread").high,
                change=patient.setting(lr=patient.rate * factor),
            )
            return


def _wild(found: dict[str, float]) -> bool:
    """Whether samples are thrown far away, or the generator's gradient is far beyond that of healthy games."""
    thrown = found["nearer"] > 1 and found["spread"] > thresholds.of("game_of_two", "spread").high
    return thrown or found["gradient"] > WILD * thresholds.of("game_of_two", "gradient").high


def _measured(patient: Patient, batch: AnyBatch, seed: int) -> dict[str, float]:
    end: Any = trained(patient, seed)
    start: Any = patient.twin()
    turn = generator_turn(end, batch)
    first = generator_gradient(start, batch, generator_turn(start, batch))
    found = {
        "gradient": generator_gradient(end, batch, turn) / max(first, 1e-30),
        "nearer": _distance(end, batch) / max(_distance(start, batch), 1e-12),
        **variety(end, batch),
    }
    apart = told_apart(end, batch)
    return found if apart is None else {**found, "told_apart": apart}


@torch.no_grad()
def _distance(model: Any, batch: AnyBatch) -> float:
    drawn = given_batch(model, batch).sample(len(batch))
    return float(energy_distance(drawn.float(), batch.x.float()))


def _vanished(found: dict[str, float]) -> bool:
    return found["gradient"] < thresholds.of("game_of_two", "gradient").low and found.get("told_apart", 1.0) > SURE


def _won(found: dict[str, float]) -> bool:
    return found.get("told_apart", 0.0) > SURE and found["nearer"] > NEARER


def _dropped(found: dict[str, float]) -> bool:
    limits = {name: thresholds.of("game_of_two", name) for name in VARIETY}
    beyond = any(found[name] > limits[name].high for name in ("missed", "outside"))
    far = found["nearer"] > thresholds.of("game_of_two", "nearer").high and found["missed"] > MISSED
    return far or beyond or found["spread"] < _narrowest()


def _narrowest() -> float:
    return thresholds.of("game_of_two", "spread").low


def _words(patient: Patient) -> str:
    return "the run's own weights" if patient.run is not None else "two seeds end there"
