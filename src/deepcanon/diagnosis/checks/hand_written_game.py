"""A game in a step of one's own: the discriminator does not win for good, and samples come to be as varied as data.

Measured, of steps that send losses of two players backward, by watching steps at rates of zero: the discriminator is
the module that is called with the examples and with what another module, the generator, has given. Of both are known
the AUC of the discriminator, the gradient of the generator by that at the start, how near the samples come to the data
(energy distance by that at the start), their spread by that of the data and the share of the cells of the data that
they miss; and how far the weights of each player have moved.

Nothing is said where the samples come near to the data in a trial, or still come nearer from 300 to 1200 steps. The
discriminator wins if it tells all apart, the samples lie as far off as at the start, and the generator's gradient has
vanished to a tenth, or its weights move fifty times less than those of the discriminator. Modes are dropped if the
generator has moved and its samples spread over less than a third of what they do in healthy trainings of games, or miss
three times as many cells. Two seeds must end there.

Papers: Goodfellow et al., 2014, https://arxiv.org/abs/1406.2661; Arjovsky and Bottou, 2017,
https://arxiv.org/abs/1701.04862
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from deepcanon.core import AnyBatch
from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.game_state import above, variety_of
from deepcanon.diagnosis.families.own_game import Observed, observed
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.losses.energy_distance import energy_distance

STAGE, PLACE = "family", 20

SURE, NEARER, VANISHED, SLOWER, MOVED = 0.999, 0.8, 0.1, 50.0, 0.1
LONG, ENOUGH = 1200, 600
"""A game is judged after so many steps, and no sooner than after so many, where these take long."""
BETTER = 0.9
"""Samples still come nearer if less than this share of their distance is left."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.ours is not None or not patient.is_game:
        raise Skip("no step of one's own trains two players")
    batch = patient.batch(512)
    start = observed(patient, patient.model)
    if start is None:
        raise Skip("nothing judges both the examples and what another module gives")
    if not patient.reference.finite:
        raise Skip("the trial did not stay finite, which another check says")
    early = _measured(patient, patient.reference.model, batch, start)
    patient.note(**early)
    limits = {name: thresholds.of("game_of_two", name) for name in ("nearer", "missed", "spread")}
    if early["nearer"] <= limits["nearer"].high and early["missed"] <= limits["missed"].high:
        return
    ends = []
    for seed in range(2):
        course = patient.train(LONG, seed=seed)
        if not course.finite or course.taken < ENOUGH:
            raise Skip("the budget allows too few steps to see where the game leads")
        end = _measured(patient, course.model, batch, start)
        patient.note(**{f"{name}_later": value for name, value in end.items()})
        if end["nearer"] < BETTER * min(1.0, early["nearer"]) or end["nearer"] <= limits["nearer"].high:
            return
        ends.append(end)
    if all(_won(end) for end in ends):
        vanished = all(end["gradient"] < VANISHED for end in ends)
        yield Diagnosis(
            cause="discriminator wins" + (", vanishing generator gradient" if vanished else ""),
            evidence=ends[0],
            advice="train the generator on -log D(G(z)) (the non-saturating loss), or the discriminator more slowly"
            if vanished
            else "lower the discriminator's learning rate or its number of steps, or give the generator more of both",
            where=start.discriminator,
            confirmed_by="two seeds end there, and samples come no nearer to the data",
        )
    elif all(_dropped(end) for end in ends):
        point = all(end["spread"] < limits["spread"].low for end in ends)
        yield Diagnosis(
            cause="mode dropping" + (", mode collapse" if point else ""),
            evidence=ends[0],
            advice="lower the generator's rate or its number of steps, and check that it uses all of its noise",
            where=start.generator,
            confirmed_by="two seeds end there",
            margin=max(limits[name].margin(ends[0][name]) for name in ("spread", "missed")),
        )


def _won(end: dict[str, float]) -> bool:
    lost = end["gradient"] < VANISHED or end["generator_moved"] * SLOWER < end["discriminator_moved"]
    return end["told_apart"] > SURE and end["nearer"] > NEARER and lost


def _dropped(end: dict[str, float]) -> bool:
    narrow = end["spread"] < thresholds.of("game_of_two", "spread").low
    missing = end["missed"] > thresholds.of("game_of_two", "missed").high
    return end["generator_moved"] > MOVED and (narrow or missing)


def _measured(patient: Patient, model: nn.Module, batch: AnyBatch, start: Observed) -> dict[str, float]:
    end = observed(patient, model)
    if end is None:
        raise Skip("the samples are not seen any more")
    data = batch.x.flatten(1).float()
    before, after = (float(energy_distance(each.samples.flatten(1).float(), data)) for each in (start, end))
    found = variety_of(data.double(), end.samples.flatten(1).double())
    return {
        "told_apart": above(end.of_data, end.of_samples),
        "gradient": end.slope / max(start.slope, 1e-30),
        "nearer": after / max(before, 1e-12),
        "spread": found["spread"],
        "missed": found["missed"],
        "generator_moved": _moved(patient.model, model, start.generator),
        "discriminator_moved": _moved(patient.model, model, start.discriminator),
    }


def _moved(before: nn.Module, after: nn.Module, name: str) -> float:
    """How far the weights of a player are from where they began, by their size there."""
    pairs = list(zip(before.get_submodule(name).parameters(), after.get_submodule(name).parameters(), strict=True))
    far = sum(float((new.detach() - old.detach()).double().square().sum()) for old, new in pairs)
    size = sum(float(old.detach().double().square().sum()) for old, _ in pairs)
    return float((far / max(size, 1e-30)) ** 0.5)
