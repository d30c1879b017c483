"""Calibrate the doctor: train every model of the catalogue by its recipe and keep the range of each statistic.

    python benchmarks/doctor_calibration.py --records calibration.jsonl --seeds 0 1 2
    python benchmarks/doctor_calibration.py --records calibration.jsonl --write

The first command trains (each model from each seed, with a limit of steps and seconds) and appends a line for each
training; what is there already is not trained again, so that several processes may work on one file, and ``--part 1/4``
takes a quarter. The second writes
``src/deepcanon/diagnosis/thresholds.json``, which the doctor's thresholds are read from: of each statistic the lowest
and the highest value in healthy trainings, quantiles, and which training they are of. A finding before or after a
training must hold for two seeds, so that there a training counts with its median over the seeds; while one runs there
is one seed, and every training counts. Unusual but sound settings (``UNUSUAL``) are trained like the recipes.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import json
import math
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from deepcanon.catalogue import entries
from deepcanon.core import DeepcanonError
from deepcanon.diagnosis import clock, thresholds
from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.doctor import Check, checks
from deepcanon.diagnosis.during_training import Doctor
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.trial import Course, Recorder
from deepcanon.train import randomness
from deepcanon.train.trainer import Trainer

THRESHOLDS = Path(thresholds.__file__).with_name("thresholds.json")

UNUSUAL: list[tuple[str, str | None, dict[str, Any]]] = [
    ("mlp", "digits", {"lr": 0.03, "schedule": "cosine:warmup=100"}),
    ("mlp", "digits", {"batch_size": 4}),
    ("mlp", "digits", {"batch_size": 512}),
    ("mlp", "digits", {"freeze": ("*0.weight",)}),
    ("mlp", "digits", {"optimizer": "sgd:momentum=0.9", "lr": 0.1}),
    ("mlp:hidden=256/256/256/256", "digits", {}),
    ("mlp", "moons", {"lr": 1e-4}),
    ("cnn", "digits", {"batch_size": 8}),
    ("cnn", "digits", {"lr": 0.01, "schedule": "cosine:warmup=50"}),
    ("resnet", "digits", {"batch_size": 16}),
    ("vae", "digits", {"batch_size": 16}),
    ("vae:latent=2", "digits", {}),
    ("vae:latent=32,likelihood=bernoulli", "digits:binary", {}),
    ("vae", "moons", {}),
    ("gan", "eight-gaussians", {}),
    ("gan", "moons", {"batch_size": 32}),
    ("wgan", "moons", {}),
    ("rbm", "digits:binary", {"lr": 0.03}),
    ("rbm:persistent=false", "digits:binary", {}),
    ("rbm:units=16", "bars-and-stripes", {}),
    ("ebm", "moons", {"lr": 1e-3}),
    ("realnvp", "moons", {}),
    ("maf", "moons", {"batch_size": 32}),
    ("made", "digits:binary", {"batch_size": 16}),
    ("ddpm", "moons", {}),
    ("ddpm:timesteps=50,noise=linear", "moons", {}),
    ("ddpm:prediction=noise", "digits", {}),
    ("ddpm:prediction=noise,timesteps=100", "eight-gaussians", {}),
    ("gcn:hidden=16/16", "karate", {}),
    ("gcn", "block-model", {}),
    ("simclr:model=mlp", "digits", {}),
    ("fixmatch:model=mlp", "digits:labels=40", {}),
    ("pseudo_label:model=mlp", "digits:labels=100", {}),
    ("distillation:model=mlp,teacher=mlp", "digits", {"lr": 3e-3}),
    ("gru", "text", {"batch_size": 8}),
]
"""Settings that are not the recipe's and sound: large rates with warm-up, tiny batches, frozen layers, other data."""


def cases(seeds: list[int]) -> Iterator[tuple[str, str | None, dict[str, Any], int]]:
    """What is trained: model, data (None for its own), settings, seed."""
    for seed in seeds:
        for entry in entries():
            yield entry.name, None, {}, seed
        for model, data, settings in UNUSUAL:
            yield model, data, settings, seed


REPAIRED = ("learning_rate",)
"""Checks whose range only says when a repair is tried, which judges: it is kept narrower than that of all trainings."""


class Unlimited(thresholds.Limit):
    """No threshold at all, so that a check measures and judges nothing."""

    low = -math.inf
    high = math.inf


def measured_checks(named: set[str] | None = None) -> list[Check]:
    """The checks whose thresholds are calibrated, or those of them with these names."""
    found = [each for each in checks() if "thresholds." in inspect.getsource(inspect.getmodule(each.examine))]  # type: ignore[arg-type]
    return [each for each in found if named is None or each.name in named]


def measure(
    model: str,
    data: str | None,
    settings: dict[str, Any],
    seed: int,
    steps: int,
    seconds: float,
    named: set[str] | None = None,
) -> dict[str, Any]:
    """Train once, watched by the doctor, and make the checks of what it came to."""
    patient = admit(model, data, budget=12 * seconds, settings={**settings, "seed": seed})
    numbers: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    doctor, recorder = Doctor(notify=lambda sentence: None, share=0.2), Recorder(steps, seconds)
    with patch.object(thresholds, "of", lambda *_: Unlimited(0, 0)):
        course = watched(patient, doctor, recorder)
        numbers["during_training"] = course
        for check in measured_checks(named):
            patient.numbers = {}
            try:
                with randomness.kept():
                    randomness.seed_all(0)
                    list(check.examine(patient) or ())
            except Skip as reason:
                skipped[check.name] = str(reason)
            except (DeepcanonError, RuntimeError, ValueError, TypeError, KeyError, AttributeError) as error:
                skipped[check.name] = f"{type(error).__name__}: {error}"[:200]
            numbers[check.name] = dict(patient.numbers)
    kept = {
        check: {name: value for name, value in found.items() if _is_number(value)} for check, found in numbers.items()
    }
    return {"data": patient.data.name, "steps": patient.reference.steps, "numbers": kept, "skipped": skipped}


def watched(patient: Patient, doctor: Doctor, recorder: Recorder) -> dict[str, Any]:
    """Train a copy watched by the doctor, and make it the patient's reference course; what the doctor measured."""
    twin: Any = copy.deepcopy(patient.model)
    settings: Any = dict(patient.settings)
    data = replace(patient.data, valid=None, test=None)
    start = time.perf_counter()
    with randomness.kept():
        randomness.seed_all(patient.settings["seed"])
        trainer = Trainer(twin, data, settings, quiet=True, observers=[recorder, doctor])
        trainer.fit()
    patient.__dict__["reference"] = Course(
        recorder.losses, twin, "", time.perf_counter() - start, max(trainer.step, 60)
    )
    return doctor.numbers(trainer)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def write(records: list[dict[str, Any]], named: list[str] | None) -> None:
    """Write the thresholds of these checks: of each statistic what healthy trainings have shown; the others stay."""
    table = json.loads(THRESHOLDS.read_text())
    latest = {(record["case"], check): numbers for record in records for check, numbers in record["numbers"].items()}
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (case, check), numbers in latest.items():
        if check in REPAIRED or (named is not None and check not in (*named, "during_training")):
            continue
        words = " ".join(case.split())
        training = words if check == "during_training" else words.rpartition(" seed ")[0]
        for name, value in numbers.items():
            found.setdefault((check, name), {}).setdefault(training, []).append(float(value))
    for (check, name), by_training in sorted(found.items()):
        values = sorted((statistics.median(each), training) for training, each in by_training.items())
        ordered = [value for value, _ in values]
        old = table.get(check, {}).get(name, {})
        table.setdefault(check, {})[name] = {
            "healthy": [_round(ordered[0]), _round(ordered[-1])],
            "quantiles": {f"{q:g}": _round(ordered[round(q * (len(ordered) - 1))]) for q in (0.05, 0.5, 0.95)},
            "lowest": values[0][1],
            "highest": values[-1][1],
            "runs": sum(map(len, by_training.values())),
            **({"share": True} if old.get("share") else {}),
        }
    THRESHOLDS.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
    print(f"{THRESHOLDS}: {len(found)} statistics of {len({case for case, _ in latest})} trainings")


def show() -> None:
    """Print the thresholds as a table for the documentation."""
    print(
        "| check | statistic | healthy range | lowest; highest in | trainings | thresholds |\n|---|---|---|---|---|---|"
    )
    for check, found in thresholds.table().items():
        for name, entry in found.items():
            limit = thresholds.of(check, name)
            seen = f"{entry['lowest']}; {entry['highest']}" if "lowest" in entry else ""
            ends = f"{limit.low:.3g}, {limit.high:.3g}"
            healthy = f"{limit.healthy_low:.3g} to {limit.healthy_high:.3g}"
            print(f"| `{check}` | {name} | {healthy} | {seen} | {entry.get('runs', '')} | {ends} |")


def read(records: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []


def _round(value: float) -> float:
    return float(f"{value:.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--records", type=Path, default=Path("calibration.jsonl"), help="a line of JSON for each training"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=5.0, help="a training takes no longer")
    parser.add_argument("--processor-time", action="store_true", help="seconds of processor time, on a busy machine")
    parser.add_argument("--part", default="1/1", help="one of so many parts of the trainings: 2/4")
    parser.add_argument("--only", nargs="+", help="models by name")
    parser.add_argument(
        "--checks", nargs="+", help="the checks to measure, in place of all whose thresholds are calibrated"
    )
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="no training begins after so many minutes of processor time"
    )
    parser.add_argument("--write", action="store_true", help="write the thresholds from the records")
    parser.add_argument("--table", action="store_true", help="print the thresholds as they are")
    options = parser.parse_args()
    if options.table:
        show()
        return
    if options.write:
        write([record for record in read(options.records) if "numbers" in record], options.checks)
        return
    wanted = {each.name for each in measured_checks(None if options.checks is None else set(options.checks))}
    number, of = map(int, options.part.split("/"))
    if options.processor_time:
        clock.now = time.process_time
    start = time.process_time()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for model, data, settings, seed in list(cases(options.seeds))[number - 1 :: of]:
        words = ",".join(f"{key}={value}" for key, value in settings.items())
        case = f"{model} on {data or 'its data'} {words} seed {seed}"
        there = [record for record in read(options.records) if record["case"] == case]  # by other processes, too
        measured = {check for record in there for check in record.get("numbers", wanted)}
        if (there and wanted <= measured) or (options.only and model.partition(":")[0] not in options.only):
            continue
        if time.process_time() - start > 60 * options.minutes:
            break
        began = time.perf_counter()
        try:
            record = {"case": case, **measure(model, data, settings, seed, options.steps, options.seconds, wanted)}
        except DeepcanonError as error:
            record = {"case": case, "error": str(error)}
        record["seconds"] = round(time.perf_counter() - began, 2)
        with options.records.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(case, record["seconds"], "s", record.get("error", ""), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
