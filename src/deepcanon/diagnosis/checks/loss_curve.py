"""The curve of a run: the loss falls, stays down, and what is learned holds on held-out data.

Measured from the log of a run: by how much the smoothed loss fell (``progress``), how far it was ever above its
beginning (``peak``), how far it ends above its lowest (``rise``), the largest spike of its second half in median
deviations, and how the validation loss moved since it was best. A loss that is a surrogate is not judged, nor one
before the last phase of a training in phases.

A blow-up lies three times outside the range of healthy trainings and ends above its beginning. A loss that has not
fallen is named by what a trial shows: too low a rate, if ten times the rate does clearly better; too high a one, if a
tenth does; else it is said to underfit. Overfitting is healthy as long as the best weights are kept: it is a fault
where the last ones are, the held-out loss was better than that of the baseline, and now is worse. Spikes and plateaus
are notes.

Papers: Goodfellow et al., 2016, https://www.deeplearningbook.org, chapters 7, 8 and 11; Smith, 2018,
https://arxiv.org/abs/1803.09820
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deepcanon.diagnosis import thresholds
from deepcanon.diagnosis.families.after_training import ours
from deepcanon.diagnosis.health_report import Diagnosis, Grade
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.repair import compare, thinned
from deepcanon.diagnosis.trial import Change
from deepcanon.diagnosis.vital_signs import curve, shape_of
from deepcanon.train.plan import settled_at

STAGE, PLACE = "dynamics", 5
MOVED = 0.02
"""A loss that fell by less than this share of its size has not fallen."""
PLATEAU = 0.01
"""Of its whole fall, a loss on a plateau falls by less than this share in the last third."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    if patient.run is None:
        raise Skip("there is no log: it is not a run")
    model = ours(patient)
    if model.surrogate:
        raise Skip("its loss does not measure the fit")
    records, _ = patient.run.folder.checked_log()
    total = max((record["step"] for record in records), default=0)
    settled = settled_at(list(model.turns()), total)
    records = [record for record in records if record["step"] > settled]
    losses = curve(records)
    shape = shape_of(losses)
    if not shape:
        raise Skip("its log is too short")
    patient.note(**shape)
    drawn = {"figure": "curves", "curves": {"loss": thinned(losses), **_held_out(records)}}
    peak = thresholds.of("during_training", "peak")
    if shape["peak"] > peak.high and shape["progress"] < 0:
        yield Diagnosis(
            cause="learning rate too high",
            evidence={**shape, **drawn},
            advice=f"lower the learning rate from {patient.rate:g}, or clip the gradient: the loss blows up",
            where="the loss",
            confirmed_by="the loss ends above its beginning",
            margin=peak.margin(shape["peak"]),
        )
    elif shape["progress"] < MOVED:
        yield from _stuck(patient, {**shape, **drawn})
    else:
        yield from _overfitted(patient, records, drawn)
        yield from _notes(losses, shape, drawn)


def _stuck(patient: Patient, evidence: Mapping[str, Any]) -> Iterator[Diagnosis]:
    for cause, rate, advice in (
        ("learning rate too low", 10.0, "raise the learning rate from {:g}, or train longer"),
        ("learning rate too high", 0.1, "lower the learning rate from {:g}"),
    ):
        compared = compare(patient, Change(f"{rate:g} times the rate", rate=rate))
        if compared.gains and len(compared.after) > 1:
            yield Diagnosis(
                cause=cause,
                evidence={**evidence, **compared.evidence()},
                advice=advice.format(patient.rate),
                where="the loss",
                confirmed_by=f"{rate:g} times the rate leaves {1 / min(compared.ratios):.2g} of the loss",
                change=patient.setting(lr=patient.rate * rate),
            )
            return
    yield Diagnosis(
        cause="bottleneck/underfitting",
        evidence=evidence,
        advice="take a larger model or a longer training: neither a higher nor a lower rate does clearly better",
        where="the loss",
        grade="suspicion",
    )


def _overfitted(patient: Patient, records: list[dict[str, Any]], drawn: Mapping[str, Any]) -> Iterator[Diagnosis]:
    """Held-out losses that were better than the baseline's and are worse now."""
    losses = [r["valid"]["loss"] for r in records if r["kind"] == "epoch" and r["valid"].get("loss") is not None]
    if len(losses) < 2 or losses[-1] <= min(losses):
        return
    baseline = (patient.run.info.get("results", {}).get("baseline") or {}).get("valid", {})
    plain = next((baseline[name] for name in ("loss", "nll", "mse") if name in baseline), None)
    harmed = plain is not None and min(losses) < plain < losses[-1]
    kept = patient.run.info.get("weights", "last")
    grade: Grade = "fault" if harmed and kept.startswith("last") else "note"
    yield Diagnosis(
        cause="overfitting",
        evidence={"best_validation_loss": min(losses), "last_validation_loss": losses[-1], **drawn},
        advice="keep the best weights (keep_weights=best), stop early (patience), or regularize",
        where=f"epoch {losses.index(min(losses)) + 1} was best",
        confirmed_by="the last weights are kept, and are worse on held-out data than the baseline",
        grade=grade,
        change=patient.setting(keep_weights="best") if kept.startswith("last") else {},
    )


def _notes(losses: list[float], shape: Mapping[str, float], drawn: Mapping[str, Any]) -> Iterator[Diagnosis]:
    spikes = thresholds.of("during_training", "spikes")
    if shape["spikes"] > spikes.high:
        yield Diagnosis(
            cause="spikes of the loss",
            evidence={"spikes": shape["spikes"], **drawn},
            advice="clip the gradient, or look at the examples of those steps",
            margin=spikes.margin(shape["spikes"]),
            grade="note",
        )
    third = shape_of(losses[-max(10, len(losses) // 3) :])
    fell = third["progress"] * abs(losses[-len(losses) // 3]) if third else 0.0
    if third and abs(fell) < PLATEAU * (losses[0] - min(losses)):
        yield Diagnosis(
            cause="plateau",
            evidence={"fall_in_the_last_third": fell, **drawn},
            advice="the loss falls no further: a lower rate at the end, or a shorter training, may do as well",
            grade="note",
        )


def _held_out(records: list[dict[str, Any]]) -> dict[str, list[float]]:
    held = [r["valid"]["loss"] for r in records if r["kind"] == "epoch" and r["valid"].get("loss") is not None]
    return {"validation": thinned(held)} if held else {}
