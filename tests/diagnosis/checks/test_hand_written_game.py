from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.families.game_state import above
from deepcanon.diagnosis.families.own_game import observed
from tests.diagnosis.cases.plain_players import moons_game, play
from tests.diagnosis.checks.planted import NO_CLOCK


def test_the_players_are_told_by_what_one_gives_and_the_other_judges() -> None:
    torch.manual_seed(0)
    given = moons_game()
    patient = admit(given.model, given.data, budget=NO_CLOCK, settings=given.settings, step=given.step,
                    optimizer=given.arguments()["optimizer"])  # fmt: skip
    before = {name: value.clone() for name, value in patient.model.state_dict().items()}
    found = observed(patient, patient.model)
    assert found is not None
    assert (found.generator, found.discriminator) == ("generator", "discriminator")
    assert found.slope > 0
    assert len(found.samples) == len(found.of_samples) == len(found.of_data) >= 512
    assert found.samples.std() > 0
    assert 0.3 < above(found.of_data, found.of_samples) < 1.0
    assert all(torch.equal(value, before[name]) for name, value in patient.model.state_dict().items())
    without = observed(replace(patient, step=partial(play, noise=torch.zeros)), patient.model)
    assert without is not None
    assert without.samples.std(0).max() < 1e-6
