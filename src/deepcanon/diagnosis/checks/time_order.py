"""Order of time: no input holds a target that comes later, and no held-out row lies among those trained on.

Measured, of rows of features: whether a feature holds, bit for bit, the targets of other rows (a lagged target), in at
least nine of ten rows, and whether these rows come later; whether held-out targets stand in a feature of training rows;
and where held-out rows lie in time. A column is taken for the time if it never repeats and is equally spaced over all
splits, or rises from each row to the next. With such a column a target of the future among the inputs is a fault;
without one, the order of the rows is taken for that of time, and it is a suspicion. Held-out targets, more than half of
them, among the inputs of training rows are a fault either way: windows of a series that were split at random. A split
across time is a suspicion where the nearest training row in time tells the target of a held-out one (more than half of
what is above chance): the score says how well gaps are filled in, not how well the future is predicted; of a file with
a column of dates a fault, if the last row before a date tells far less of the rows after it. Targets that
were scaled apart from the feature that holds them are found as well: it is a multiple of the target so many rows later,
and of none before. Kapoor and Narayanan, Leakage and the reproducibility crisis, 2023,
https://doi.org/10.1016/j.patter.2023.100804.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from deepcanon.diagnosis.health_report import Diagnosis
from deepcanon.diagnosis.patient import Patient, Skip
from deepcanon.diagnosis.rows import labels_of, real_rows, rows_of, standardized

STAGE, PLACE = "data", 55
STOPS = False

LEAST, DIFFERENT, LAGGED, HALF = 50, 0.9, 0.9, 0.5
FURTHEST = 24
"""Lags of so many rows are tried."""
EXACT = 1e-6
"""What a multiple leaves at most of the variance of a feature: less than measured numbers ever do."""


def check(patient: Patient) -> Iterator[Diagnosis]:
    rows, y = real_rows(patient), labels_of(patient.train_split).double()
    if patient.train_split.x.ndim != 2 or len(rows) < LEAST or rows.shape[1] < 2:
        raise Skip("the examples are not rows of features, or too few")
    held = {name: split for name, split in patient.splits.items() if name != "train"}
    others = {name: (rows_of(split), labels_of(split).double()) for name, split in held.items()}
    time = _time_column([rows, *(each for each, _ in others.values())])
    patient.note(time_column=-1 if time is None else time)
    if patient.task == "targets" and len(y.unique()) >= DIFFERENT * len(y):
        ahead = list(_of_the_future(rows, y, time))
        if time is not None and not ahead:
            together = [(rows, y), *others.values()]
            every, targets = torch.cat([x for x, _ in together]), torch.cat([y for _, y in together])
            ahead = list(_scaled_apart(every, targets, time))
        yield from ahead
        for name, (_, targets) in others.items():
            yield from _held_out_among_inputs(patient, rows, targets, name)
    if time is not None:
        for name, (other, targets) in others.items():
            found = list(_across_time(patient, (rows[:, time], y), (other[:, time], targets), name))
            yield from found
            if any(each.grade == "fault" for each in found):
                return  # the other splits were drawn in the same way


def _time_column(splits: list[Tensor]) -> int | None:
    """The column that is the time of the rows, where there is one."""
    together = torch.cat(splits)
    steps = together.sort(0).values.diff(dim=0)
    even = (steps.amin(0) > 0) & (steps.amax(0) <= (1 + 1e-3) * steps.amin(0))
    rising = (splits[0].diff(dim=0) > 0).all(0) & (steps.amin(0) > 0)
    found = (even | rising).nonzero().flatten()
    return int(found[0]) if len(found) == 1 else None


def _places(values: Tensor, among: Tensor) -> Tensor:
    """For each value its place among others that do not repeat; -1 where it is not there."""
    ordered, order = among.sort()
    at = torch.searchsorted(ordered, values.contiguous()).clamp_max(len(ordered) - 1)
    return torch.where(ordered[at] == values, order[at], -1)


def _of_the_future(rows: Tensor, y: Tensor, time: int | None) -> Iterator[Diagnosis]:
    when = torch.arange(len(rows)).double() if time is None else rows[:, time]
    for feature in range(rows.shape[1]):
        place = _places(rows[:, feature], y)
        known = place >= 0
        if feature == time or float(known.double().mean()) < LAGGED:
            continue
        ahead = (when[place] - when)[known]
        if bool((ahead > 0).double().mean() >= LAGGED):
            yield Diagnosis(
                cause="time leakage",
                evidence={"rows": int(known.sum()), "ahead": float(ahead.median())},
                advice="leave this feature out, or shift it the other way: it holds targets of later rows",
                where=f"feature {feature}",
                confirmed_by="exact: equal numbers, later in time" if time is not None else "",
                grade="fault" if time is not None else "suspicion",
            )
            return


def _scaled_apart(rows: Tensor, y: Tensor, time: int) -> Iterator[Diagnosis]:
    """Features that are multiples of the target so many rows later, of all rows in the order of their times."""
    order = rows[:, time].argsort()
    rows, y = rows[order], y[order]
    if len(rows) < LEAST + 2 * FURTHEST:
        return
    lags = range(-FURTHEST, FURTHEST + 1)
    middle = rows[FURTHEST : len(rows) - FURTHEST]
    later = torch.stack([y[FURTHEST + lag : len(y) - FURTHEST + lag] for lag in lags], 1)
    left = 1 - (standardized(middle).T @ standardized(later) / len(middle)).square()
    left[time] = 1.0
    known = (left <= EXACT).nonzero().tolist()
    for feature in sorted({feature for feature, _ in known}):
        found = [lags[at] for here, at in known if here == feature]
        if min(found) > 0:  # a series that repeats has the same target before
            yield Diagnosis(
                cause="time leakage",
                evidence={"ahead": min(found), "variance_left": float(left[feature].min())},
                advice="leave this feature out, or shift it the other way: it holds targets of later rows",
                where=f"feature {feature}",
                confirmed_by="exact: a multiple of the target, later in time",
            )
            return


def _held_out_among_inputs(patient: Patient, rows: Tensor, targets: Tensor, name: str) -> Iterator[Diagnosis]:
    shares = torch.stack([torch.isin(targets, rows[:, feature]).double().mean() for feature in range(rows.shape[1])])
    share = float(shares.max())
    patient.note(**{f"{name}_targets_among_inputs": share})
    if share > HALF:
        yield Diagnosis(
            cause="time leakage",
            evidence={"share_of_held_out_targets": share},
            advice="split by time: train on the rows before a date, and hold out those after it",
            where=f"feature {int(shares.argmax())} of train holds targets of {name}",
            confirmed_by="exact: equal numbers",
        )


def _across_time(
    patient: Patient, train: tuple[Tensor, Tensor], held: tuple[Tensor, Tensor], name: str
) -> Iterator[Diagnosis]:
    (when, y), (then, targets) = train, held
    among = float((then < when.max()).double().mean())
    told = _told(patient, y[torch.cdist(then.unsqueeze(1), when.unsqueeze(1)).argmin(1)], targets)
    ordered = y[when.argsort()]
    cut = len(ordered) * 4 // 5
    future = _told(patient, ordered[cut - 1].expand(len(ordered) - cut), ordered[cut:])
    patient.note(**{f"{name}_before_the_end": among, f"{name}_told_by_nearest": told, f"{name}_future_told": future})
    if among > HALF and told > HALF:
        columns = patient.data.preprocessing.get("columns", ())
        dated = any(column.get("kind") == "date" for column in columns) and told - future > HALF
        yield Diagnosis(
            cause="time leakage",
            evidence={"before_the_last_training_row": among, "told_by_the_nearest_row": told},
            advice="split by time, if the future is to be predicted: train before a date, hold out what comes after",
            where=name,
            grade="fault" if dated else "suspicion",
            confirmed_by="rows next in time tell the targets, and the last row of the past does not" if dated else "",
        )


def _told(patient: Patient, answers: Tensor, targets: Tensor) -> float:
    """What answers tell of targets: the share of their variance, or of what is above chance."""
    if patient.task == "targets":
        return 1 - float((answers - targets).square().mean() / targets.var(correction=0).clamp_min(1e-300))
    chance = float((torch.unique(targets, return_counts=True)[1] / len(targets)).square().sum())
    return (float((answers == targets).double().mean()) - chance) / max(1 - chance, 1e-9)
