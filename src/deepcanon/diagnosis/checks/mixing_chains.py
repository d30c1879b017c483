"""Markov chains: the chains of an energy-based model move, stay as varied as the data, and near them in energy.

Measured after a trial (or of a run's weights): how far a chain moves in ten rounds by the distance of two chains (1 if
independent, 0 if it stands still), the same of the states that the model keeps, over one round, the spread of the
chains by that of the data, and the difference of their energies in standard deviations. Chains that stand still give
the same gradient again and again; at too high a rate the weights run ahead of the chains, which then all sit in the
same place, far from the data. A model has chains if it has ``energy`` and ``negatives``.

The thresholds are three times outside the range of healthy trainings. That the rate is too high is named only if a
trial at a fraction of it brings the chains back into that range.

Papers: Tieleman, 2008, https://doi.org/10.1145/1390156.1390290; Fischer and Igel, 2014,
https://doi.org/10.1016/j.patcog.2013.05.025; Nijkamp et al., 2019, https://arxiv.org/abs/1903.12370
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ENOUGH, ours, repaired, trained
from deepcanon.diagnosis.families.chains_mixing import chains_mixing, has_chains
from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.trial import Change

STAGE, PLACE = "family", 20
PLACE_OF_CHAINS = ("spread", "gap")
SLOWER = (0.1, 1e-3)
"""The shares of the rate that are tried; at the lowest the weights hardly move."""
LEAST = 20
"""Chains show after so many steps whether they move."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if not has_chains(ours(patient)):
        raise Skip("it has no chains")
    batch = patient.batch(256)
    if not bool(batch.x.isfinite().all()):
        raise Skip("entries are missing, so that states cannot be compared")
    found = chains_mixing(trained(patient, least=LEAST), batch)
    patient.note(**found)
    young = patient.run is None and patient.reference.asked < ENOUGH
    outside = _outside(found, young)
    if not outside:
        return
    worst = max(outside, key=lambda name: outside[name])
    for share in SLOWER:
        slower = chains_mixing(repaired(patient, Change(f"{share:g} of the rate", rate=share), least=LEAST), batch)
        if not _outside(slower, young):
            yield Diagnosis(
                cause="chain rate too high",
                evidence={**found, **{f"{name}_at_a_lower_rate": slower[name] for name in outside}},
                advice=f"lower the learning rate from {patient.rate:g}: the weights run ahead of the chains",
                where="chains",
                confirmed_by=f"{share:g} of the rate brings the chains back",
                margin=outside[worst],
                change=patient.setting(lr=patient.rate * share),
            )
            return
    yield Diagnosis(
        cause="chain does not mix",
        evidence=found,
        advice="take more steps of the chain between two steps of learning, larger steps, or begin more chains anew",
        where="chains",
        confirmed_by=f"at {SLOWER[-1]:g} of the learning rate the chains do not mix either",
        margin=outside[worst],
    )


def _outside(found: dict[str, float], young: bool) -> dict[str, float]:
    """The statistics outside their thresholds, each with its margin; where young chains are says nothing yet."""
    limits = {name: thresholds.of("mixing_chains", name) for name in ("moved", "advanced", "spread", "gap")}
    beyond = {
        "moved": found["moved"] < limits["moved"].low,
        "advanced": found.get("advanced", math.inf) < limits["advanced"].low,
        "spread": not limits["spread"].low <= found["spread"] <= limits["spread"].high,
        "gap": found["gap"] > limits["gap"].high,
    }
    return {
        name: limits[name].margin(found[name])
        for name, out in beyond.items()
        if out and not (young and name in PLACE_OF_CHAINS)
    }
