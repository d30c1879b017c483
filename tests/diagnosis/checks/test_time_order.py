from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from deepcanon.core import Labeled
from deepcanon.data import Dataset
from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.doctor import examine
from deepcanon.diagnosis.health_report import Report
from tests.diagnosis.checks.plain import TARGETS, X, report

COUNT = 400
_NOISE = torch.randn(COUNT + 2, generator=torch.Generator().manual_seed(0))
SERIES = torch.sin(torch.arange(COUNT + 2) / 20) + 0.1 * _NOISE
TIME = torch.arange(1.0, COUNT + 1)
BY_TIME = torch.arange(COUNT)
AT_RANDOM = torch.randperm(COUNT, generator=torch.Generator().manual_seed(0))


def examined(x: Tensor, y: Tensor, order: Tensor) -> Report:
    train, test = order[:300].sort().values, order[300:].sort().values
    data = Dataset(
        "series", "table", Labeled(x[train], y[train]), test=Labeled(x[test], y[test]), sizes={}, shape=x.shape[1:]
    )
    torch.manual_seed(0)
    found = report("time_order", nn.Linear(x.shape[1], y.shape[1]), data, loss=nn.MSELoss())
    assert not any("could not" in reason for reason in found.skipped.values()), found.skipped
    return found


def columns(*parts: Tensor) -> Tensor:
    return torch.stack(parts, 1)


LATER, NOW, BEFORE = SERIES[2:], SERIES[1:-1].unsqueeze(1), SERIES[:-2]


@pytest.mark.parametrize(
    ("x", "order", "faults", "suspicions"),
    [
        (columns(TIME, BEFORE), BY_TIME, 0, 0),
        (columns(TIME, LATER), BY_TIME, 1, 0),  # the next value is an input
        (columns(TIME, BEFORE), AT_RANDOM, 1, 1),  # held-out targets are inputs of the rows after them
        (columns(TIME, _NOISE[:COUNT]), AT_RANDOM, 0, 1),  # neighbors in time tell the target
        (columns(BEFORE, _NOISE[:COUNT]), BY_TIME, 0, 0),
        (columns(LATER, _NOISE[:COUNT]), BY_TIME, 0, 1),  # nothing says which way time goes
        (columns(BEFORE, _NOISE[:COUNT]), AT_RANDOM, 1, 0),  # windows of a series, split at random
        (columns(TIME, 0.3 * LATER - 1), BY_TIME, 1, 0),  # the next value, scaled apart from the targets
        (columns(TIME.square(), 0.3 * LATER - 1), BY_TIME, 1, 0),
        (columns(TIME, 0.3 * BEFORE - 1), BY_TIME, 0, 0),
    ],
)
def test_what_is_known_of_the_future_is_seen(x: Tensor, order: Tensor, faults: int, suspicions: int) -> None:
    found = examined(x, NOW, order)
    assert [each.cause for each in found] == ["time leakage"] * faults
    assert [each.cause for each in found.suspicions] == ["time leakage"] * suspicions


def test_numbered_rows_without_an_order_are_fine() -> None:
    found = examined(torch.cat([TIME.unsqueeze(1), X[:COUNT]], 1), TARGETS[:COUNT], AT_RANDOM)
    assert found.healthy
    assert not found.suspicions
    assert found.passed["time_order"]["time_column"] == 0


def test_a_file_with_dates_that_is_split_at_random_leaks_where_the_past_alone_tells_little(tmp_path: Path) -> None:
    start = date(2020, 1, 1)
    random = torch.Generator().manual_seed(1)
    walk, noise = torch.randn(COUNT, generator=random).cumsum(0), torch.randn(COUNT, generator=random)
    for name, values in (("walk", walk), ("noise", noise)):
        rows = [f"{start + timedelta(i)},{float(noise[-i]):.3f},{float(v):.3f}" for i, v in enumerate(values)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["day,other,load", *rows]) + "\n")

    def found(name: str, **options: str) -> list[str]:
        patient = admit("mlp", str(tmp_path / f"{name}.csv"), settings={"target": "load", **options})
        return [each.cause for each in examine(patient, only=["time_order"])]

    assert found("walk") == ["time leakage"]
    assert found("walk", split_by="day") == []
    assert found("noise") == []
