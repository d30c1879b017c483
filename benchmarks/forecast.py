"""DeepAR compared with GluonTS's and with baselines: forecasts of the same series, from the same origins.

    python benchmarks/forecast.py [--data series] [--seeds 3] [--steps 750] [--only recipe,best]
        [--first 0] [--json FILE]
    python benchmarks/forecast.py --data m4-weekly --speed [--rounds 10]

The data are ``series``, whose best possible CRPS is known, and where they are on this disk (DEEPCANON_DATA)
``m4-weekly`` and ``exchange-rate``. Ours has its default sizes, with a negative binomial head on ``series`` and
differenced on the others, next to the sizes and the link of the paper, and on ``series`` next to what ``deepcanon train
deepar`` makes of them: all arguments by default, for the epochs of the recipe, and the same with a head for values that
are no counts. GluonTS's DeepAREstimator has the layers of the paper, and our likelihood, given steps, batches, number
of them, learning rate, covariates, ids and validation data; "same inputs" also has no lags and no features of the
calendar, while "as it comes" has those that it chooses. The baselines are those of ``deepcanon compare``: the last
season again, the season chosen by validation data, and exponential smoothing (ETS). All forecasts are 100 sample paths,
the best possible 1,000.

The CRPS is in units of the mean absolute value of all series, where the large ones count for most, and as the mean over
series, each in units of its own mean; sMAPE is that of the median, in percent. ``--speed`` times training steps, each
library in a process of its own, block by block, in processor time. GluonTS needs ``pip install -c constraints.txt -e
'.[bench_forecast]'``, in an environment apart from that of the other peers, since it takes no pandas from 3.0 on.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import argparse
import json
import logging
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from gluonts.dataset.common import ListDataset
from gluonts.torch import DeepAREstimator
from gluonts.torch.distributions import NegativeBinomialOutput, StudentTOutput
from lightning.pytorch import Callback
from relay import Candidate, race, ratio
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.comparison.baselines.seasonal import ExponentialSmoothing, SeasonalNaive
from deepcanon.core import Series
from deepcanon.data.sets.series import DAYS, ITEMS, STEPS, TESTS, best_paths, demand
from deepcanon.losses import crps
from deepcanon.train.settings import resolve_settings
from deepcanon.train.trainer import Trainer

BATCH, RATE, UNITS, LAYERS, PATHS, BEST_PATHS = 64, 5e-3, 40, 2, 100, 1000
PAPER = {"units": UNITS, "layers": LAYERS}
Forecasts = dict[str, Tensor]
"""Sample paths (paths, rows, steps) of the test, and of the validation data where settings are chosen by them."""

GOAL, NEAR = 2.0, 0.05
"""How many times as fast as GluonTS a training step shall be, and how near to the best possible CRPS a forecast."""


@dataclass
class Problem:
    """Data by their name, how ours is built for them, and what GluonTS is told of them."""

    name: str
    ours: dict[str, Any]
    freq: str
    start: str
    theirs: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def data(self) -> Any:
        return dc.load_data(self.name)

    @cached_property
    def whole(self) -> list[dict[str, Any]]:
        """The series from their beginning to their end."""
        return [{"target": row, **more} for row, more in zip(*WHOLE[self.name](), strict=True)]


def whole_series() -> tuple[list[Tensor], list[dict[str, Any]]]:
    series = demand(ITEMS, DAYS, seed=0).series
    assert series.covariates is not None
    more = [{"feat_static_cat": [item], "feat_dynamic_real": series.covariates[item].T} for item in range(ITEMS)]
    return list(series.x[..., 0]), more


def whole_published(name: str) -> tuple[list[Tensor], list[dict[str, Any]]]:
    from deepcanon.data.sets.real_series import EXCHANGE_RATE, M4_WEEKLY, exchange_rows, m4_rows

    rows = m4_rows(M4_WEEKLY) if name == "m4-weekly" else exchange_rows(EXCHANGE_RATE)
    ids = [{"feat_static_cat": [row]} if name == "exchange-rate" else {} for row in range(len(rows))]
    return [torch.from_numpy(row).float() for row in rows], ids


WHOLE: dict[str, Callable[[], tuple[list[Tensor], list[dict[str, Any]]]]] = {
    "series": whole_series,
    "m4-weekly": lambda: whole_published("m4-weekly"),
    "exchange-rate": lambda: whole_published("exchange-rate"),
}

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "series", {"head": "negative_binomial"}, "h", "2024-01-01 00:00",  # a Monday
            {"num_feat_dynamic_real": 4, "num_feat_static_cat": 1, "cardinality": [ITEMS], "embedding_dimension": [8],
             "distr_output": NegativeBinomialOutput()},
        ),
        Problem("m4-weekly", {"differenced": True}, "W", "2000-01-02", {"distr_output": StudentTOutput()}),
        Problem(
            "exchange-rate", {"differenced": True}, "B", "1990-01-01",
            {"num_feat_static_cat": 1, "cardinality": [8], "embedding_dimension": [8],
             "distr_output": StudentTOutput()},
        ),
    )
}  # fmt: skip


def ours(problem: Problem, seed: int, steps: int, **arguments: Any) -> Forecasts:
    data = problem.data
    torch.manual_seed(seed)
    model: Any = dc.find("deepar")(**data.sizes, **(arguments or problem.ours))
    dc.fit(model, data, steps=steps, batch_size=BATCH, lr=RATE, seed=seed, quiet=True, evaluate=False)
    return forecasts(model, problem, seed)


def plain(problem: Problem, seed: int, steps: int) -> Forecasts:
    """Ours as the paper has it: values in units of their mean, and the mean of counts as the softplus of an output."""
    head = problem.ours.get("head", "student_t")
    link = {"link": "softplus"} if head == "negative_binomial" else {}
    return ours(problem, seed, steps, head=head, **PAPER, **link)


def by_recipe(problem: Problem, seed: int, steps: int, head: str = "auto") -> Forecasts:
    """What ``deepcanon train deepar`` makes of the data: every argument by default, and as many steps as the recipe."""
    torch.manual_seed(seed)
    model: Any = dc.find("deepar")(**problem.data.sizes, head=head)
    dc.fit(model, problem.data, seed=seed, quiet=True, evaluate=False)
    return forecasts(model, problem, seed)


def forecasts(model: Any, problem: Problem, seed: int) -> Forecasts:
    def of(part: Series) -> Tensor:
        steps = int((part.lengths - part.origins)[0])
        paths: Tensor = model.forecast(part.past, steps, samples=PATHS, generator=Generator().manual_seed(seed))
        return paths.squeeze(3)

    return {split: of(problem.data.split(split)) for split in ("valid", "test")}


def estimator(problem: Problem, steps: int, callbacks: list[Any], **inputs: Any) -> DeepAREstimator:
    given, ahead = sizes(problem)
    return DeepAREstimator(
        freq=problem.freq, prediction_length=ahead, context_length=given, num_layers=LAYERS, hidden_size=UNITS, lr=RATE,
        dropout_rate=0.0, batch_size=BATCH, num_batches_per_epoch=50, num_parallel_samples=PATHS,
        trainer_kwargs={
            "max_epochs": max(1, steps // 50), "accelerator": "cpu", "logger": False, "enable_progress_bar": False,
            "enable_model_summary": False, "enable_checkpointing": True, "callbacks": callbacks,
            "default_root_dir": tempfile.mkdtemp(),
        },
        **problem.theirs, **inputs,
    )  # fmt: skip


def gluonts(problem: Problem, seed: int, steps: int, **inputs: Any) -> Forecasts:
    _, ahead = sizes(problem)
    data = problem.data
    tests, valids = (len(split) // len(problem.whole) for split in (data.split("test"), data.split("valid")))
    torch.manual_seed(seed)
    made = estimator(problem, steps, [], **inputs)
    predictor = made.train(
        listed(problem, [-(tests + valids) * ahead]), listed(problem, [-tests * ahead]), cache_data=True
    )
    found = predictor.predict(listed(problem, [-ahead * test for test in range(tests, 0, -1)], reach=ahead))
    return {"test": torch.stack([torch.from_numpy(each.samples) for each in found], 1)}  # (paths, rows, steps)


def sizes(problem: Problem) -> tuple[int, int]:
    test = problem.data.split("test")
    return int(test.origins[0]), int((test.lengths - test.origins)[0])


def listed(problem: Problem, ends: list[int], reach: int = 0) -> ListDataset:
    """The series up to each of the ends, which count from the last step, with covariates of so many further steps."""

    def entries() -> Iterator[dict[str, Any]]:
        for one in problem.whole:
            for end in ends:
                last = len(one["target"]) + end
                entry = {
                    **one,
                    "start": pd.Period(problem.start, freq=problem.freq),
                    "target": one["target"][:last].numpy(),
                }
                if "feat_dynamic_real" in one:
                    entry["feat_dynamic_real"] = one["feat_dynamic_real"][:, : last + reach].numpy()
                yield entry

    return ListDataset(list(entries()), freq=problem.freq)


def best(problem: Problem, seed: int, steps: int) -> Forecasts:
    """Forecasts by the law that the series were drawn from."""
    known, hours = demand(ITEMS, DAYS, seed=0), DAYS * 24
    generator = Generator().manual_seed(seed)
    days = [best_paths(known, hours - STEPS * test, STEPS, BEST_PATHS, generator) for test in range(TESTS, 0, -1)]
    return {"test": torch.stack(days, 2).flatten(1, 2)}


def scores(problem: Problem, made: Forecasts) -> dict[str, float]:
    """The scores of the test, and the CRPS of the validation data where they are predicted too."""
    found = split_scores(problem, "test", made["test"])
    return found | ({"valid_crps": split_scores(problem, "valid", made["valid"])["crps"]} if "valid" in made else {})


def split_scores(problem: Problem, split: str, paths: Tensor) -> dict[str, float]:
    part = problem.data.split(split)
    truth, paths = part.x[:, int(part.origins[0]) :, 0].double(), paths.double()
    score, median = crps(paths, truth), paths.quantile(0.5, 0)
    low, high = (paths.quantile(level, 0) for level in (0.1, 0.9))
    count = len(problem.whole)
    each = score.reshape(count, -1).mean(1) / truth.abs().reshape(count, -1).mean(1).clamp_min(1e-9)
    return {
        "crps": float(score.sum() / truth.abs().sum()),
        "crps_by_series": float(each.mean()),
        "smape": float((200 * (median - truth).abs() / (median.abs() + truth.abs()).clamp_min(1e-9)).mean()),
        "coverage_80": float(((low <= truth) & (truth <= high)).double().mean()),
    }


def shown(row: dict[str, float]) -> str:
    return "".join(f"  {score} {value:.4f}" for score, value in row.items())


class Lap(Callback):  # type: ignore[misc]
    """Tells a relay of every training step of Lightning."""

    def __init__(self, lap: Callable[[], None]) -> None:
        self.lap = lap

    def on_train_batch_end(self, *args: Any, **kwargs: Any) -> None:
        self.lap()


def speed(problem: Problem, rounds: int) -> dict[str, float]:
    """How many times as fast as GluonTS ours trains, a step of as many windows of as many steps each."""

    def train_ours(lap: Callable[[], None]) -> None:
        data = problem.data
        model: Any = dc.find("deepar")(**data.sizes, **problem.ours, **PAPER)
        settings = resolve_settings(type(model).recipe, batch_size=BATCH, steps=10**6, device="cpu")
        trainer = Trainer(model, data, settings, quiet=True)
        for index in trainer._indices():
            trainer.step += 1
            trainer._play(index)
            lap()

    def train_theirs(lap: Callable[[], None], **inputs: Any) -> None:
        made = estimator(problem, 10**6, [Lap(lap)], **inputs)
        made.train(listed(problem, [-2 * sizes(problem)[1]]), cache_data=True)

    one = Candidate("deepcanon", train_ours, time.process_time)
    again = Candidate("deepcanon again", train_ours, time.process_time)
    same = Candidate(
        "gluonts, same inputs", lambda lap: train_theirs(lap, lags_seq=[1], time_features=[]), time.process_time
    )
    usual = Candidate("gluonts, as it comes", train_theirs, time.process_time)
    race([one, same, usual, again], rounds)
    found = {each.name: ratio(each, one) for each in (again, same, usual)}
    windows = len(problem.data.train)
    for each in (one, same, usual):
        step = statistics.median(each.blocks) / 20
        epoch = step * windows / BATCH
        print(f"  {each.name:24} {1e3 * step:7.1f} ms a step of {BATCH}, {epoch:6.1f} s an epoch of {windows:,}")
    for name, times in found.items():
        print(
            f"  {name:24} takes {times:.2f} times as long as ours"
            + (f" (goal: {GOAL})" if name in (same.name, usual.name) else "")
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", choices=[*PROBLEMS], default="series")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=750)
    parser.add_argument("--speed", action="store_true", help="time training steps instead")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", help="only the candidates whose names have one of these in them, with commas")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    problem = PROBLEMS[options.data]
    facts: dict[str, Any] = {"machine": platform.machine(), "torch": torch.__version__, "data": problem.name}
    if options.speed:
        facts["speed"] = speed(problem, options.rounds)
    else:
        facts |= compared(
            problem, range(options.first, options.first + options.seeds), options.steps, options.only or ""
        )
    if options.json:
        options.json.write_text(json.dumps(facts, indent=1))


def compared(problem: Problem, seeds: range, steps: int, only: str) -> dict[str, Any]:
    settings: dict[str, Callable[[Problem, int, int], Forecasts]] = {"deepcanon": ours, "as the paper has it": plain}
    if problem.name == "series":
        settings["by its recipe"] = by_recipe
        settings["Student-t, same epochs"] = partial(by_recipe, head="student_t")
    candidates: dict[str, Callable[[Problem, int, int], Forecasts]] = {
        **settings,
        "gluonts, same inputs": lambda *asked: gluonts(*asked, lags_seq=[1], time_features=[]),
        "gluonts, as it comes": gluonts,
        "seasonal naive": lambda problem, seed, _: forecasts(SeasonalNaive.fit(problem.data, seed), problem, seed),
        "ETS": lambda problem, seed, _: forecasts(ExponentialSmoothing.fit(problem.data, seed), problem, seed),
    }
    if problem.name == "series":
        candidates["best possible"] = best
    found: dict[str, list[dict[str, float]]] = {
        name: [] for name in candidates if any(part in name for part in only.split(","))
    }
    for seed in seeds:
        for name in found:
            begun = time.process_time()
            measured = scores(problem, candidates[name](problem, seed, steps))
            found[name].append({**measured, "seconds": time.process_time() - begun})
            print(f"seed {seed}: {name:24}" + shown(found[name][-1]), flush=True)
    print(f"{problem.name}: {len(seeds)} seeds, {steps} steps of {BATCH}; medians, and the CRPS from least to most")
    medians = {
        name: {score: statistics.median(each[score] for each in rows) for score in rows[0]}
        for name, rows in found.items()
    }
    for name, row in medians.items():
        spread = [each["crps"] for each in found[name]]
        print(f"  {name:24}" + shown(row) + f"  ({min(spread):.4f} to {max(spread):.4f})")
    tried = [name for name in settings if name in medians]
    if tried:
        chosen = min(tried, key=lambda name: medians[name]["valid_crps"])
        print(f"of our settings ({', '.join(tried)}) validation data prefer: {chosen}")
    if "best possible" in medians:
        for name in tried:
            gaps = [
                one["crps"] / other["crps"] - 1 for one, other in zip(found[name], found["best possible"], strict=True)
            ]
            print(
                f"  {name:24} {', '.join(f'{gap:+.1%}' for gap in gaps)} of the best possible CRPS (goal: {NEAR:.0%})"
            )
    return {"medians": medians, "all": found}


if __name__ == "__main__":
    main()
