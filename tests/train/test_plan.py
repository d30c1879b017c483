"""The plan of a training, and trainings along it: growing batches against a loop written out by hand."""

from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, Recipe, Terms
from deepcanon.core.toy import Toy
from deepcanon.optim import batch_size_schedule
from deepcanon.train import Observer, Trainer
from deepcanon.train.plan import Plan
from deepcanon.train.randomness import seed_from
from deepcanon.train.settings import resolve_settings

GROWING = "exponential:by=2,every=2,most=24"


def plan(examples: int, **settings: Any) -> Plan:
    return Plan(examples, resolve_settings(Recipe(batch_size=8, epochs=4), **settings))


def test_every_step_knows_its_epoch() -> None:
    one = plan(20, batch_size_schedule="linear:by=4")
    assert [one.size(epoch) for epoch in range(4)] == [8, 12, 16, 20]
    assert [one.start(epoch) for epoch in range(5)] == [0, 3, 5, 7, 8]
    assert (one.total, one.epochs) == (8, 4)
    assert [one.epoch_before(step) for step in range(9)] == [0, 1, 1, 1, 2, 2, 3, 3, 4]
    assert [one.epoch_after(step) for step in range(8)] == [0, 0, 0, 1, 1, 2, 2, 3]


@pytest.mark.parametrize("steps", [1, 3, 4, 6, 7, 9, 30])
def test_counted_steps_cut_the_last_epoch(steps: int) -> None:
    one = plan(20, steps=steps, batch_size_schedule="linear:by=4")
    starts = [one.start(epoch) for epoch in range(one.epochs)]
    assert one.total == one.end(one.epochs - 1) == steps > starts[-1]
    assert starts == sorted(set(starts))
    plain = plan(20, steps=steps)
    assert (plain.total, plain.epochs) == (steps, -(-steps // 3))


def test_batches_beyond_the_data_hold_all_of_them() -> None:
    few, growing = plan(5), plan(20, batch_size_schedule="exponential")
    assert [few.size(epoch) for epoch in range(4)] == [8] * 4  # the size also tells how a text is cut into streams
    assert [growing.size(epoch) for epoch in range(4)] == [8, 16, 20, 20]


SCHEDULES = (
    "constant",
    "linear:by=3",
    "linear:by=0.3,every=3",
    "exponential:by=1.3",
    "exponential:by=2,every=4,most=30",
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("counted", [{"epochs": 17}, {"steps": 1}, {"steps": 29}, {"steps": 90}])
def test_a_plan_is_the_list_of_its_epochs(schedule: str, counted: dict[str, int]) -> None:
    """Against the list that a loop over all epochs writes out."""
    one, size = plan(50, batch_size_schedule=schedule, **counted), batch_size_schedule(schedule)
    sizes: list[int] = []
    starts = [0]
    while len(sizes) < counted["epochs"] if "epochs" in counted else starts[-1] < counted["steps"]:
        sizes.append(min(size(len(sizes), 8), 50))
        starts.append(starts[-1] + -(-50 // sizes[-1]))
    starts[-1] = counted.get("steps", starts[-1])
    assert (one.total, one.epochs) == (starts[-1], len(sizes))
    assert [one.size(epoch) for epoch in range(one.epochs)] == sizes
    assert [one.start(epoch) for epoch in range(one.epochs)] == starts[:-1]
    assert [one.end(epoch) for epoch in range(one.epochs)] == starts[1:]
    assert [one.epoch_before(step) for step in range(one.total + 1)] == [
        bisect_left(starts, step) for step in range(one.total + 1)
    ]
    assert [one.epoch_after(step) for step in range(one.total)] == [
        bisect_right(starts, step) - 1 for step in range(one.total)
    ]


@pytest.mark.parametrize("schedule", [*SCHEDULES, "exponential:by=2", "linear:by=1e300"])
@pytest.mark.parametrize("counted", [{"epochs": 10**18}, {"steps": 10**18}])
def test_a_training_without_an_end_is_planned_at_once(schedule: str, counted: dict[str, int]) -> None:
    one = plan(50, batch_size_schedule=schedule, **counted)
    assert len(one.stages) <= 50
    assert one.total >= 10**18
    assert one.epoch_before(one.total) == one.epochs
    assert one.start(one.epochs - 1) < one.total == one.end(one.epochs - 1)


def setting() -> tuple[Toy, Any]:
    torch.manual_seed(0)
    return Toy(features=3), dc.from_tensors(torch.randn(50, 3, generator=torch.Generator().manual_seed(1)))


def test_training_with_growing_batches_is_the_loop_one_would_write() -> None:
    model, data = setting()
    twin, _ = setting()
    dc.fit(model, data, quiet=True, seed=3, epochs=6, batch_size=8, batch_size_schedule=GROWING, lr=0.1,
           optimizer="sgd:fused=false", schedule="linear")  # fmt: skip
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    total, step = 2 * (7 + 4 + 3), 0  # batches of 8, 16 and 24 out of 50
    for epoch, size in enumerate([8, 8, 16, 16, 24, 24]):
        order = torch.randperm(50, generator=torch.Generator().manual_seed(seed_from(3, "epoch", epoch)))
        for index in order.split(size):
            optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / total)
            optimizer.zero_grad()
            sum(twin.loss(data.train.select(index)).values(), torch.zeros(())).backward()
            optimizer.step()
            step += 1
    assert step == total
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_a_schedule_that_does_not_grow_changes_no_bit() -> None:
    results = []
    for text in (None, "constant", "linear:by=0", "exponential:by=1"):
        model, data = setting()
        dc.fit(model, data, quiet=True, epochs=3, batch_size=8, batch_size_schedule=text)  # type: ignore[arg-type]
        results.append(nn.utils.parameters_to_vector(model.parameters()))
    assert all(torch.equal(results[0], other) for other in results[1:])


class Breaks(Observer):
    """Breaks a training off after a step."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, trainer: Trainer, terms: Terms) -> None:
        if trainer.step > self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("step", [7, 10, 15, 18, 27])
def test_broken_off_anywhere_and_resumed_it_ends_with_the_same_bits(step: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 6, "batch_size": 8, "batch_size_schedule": GROWING, "checkpoint_every": 1}
    model, data = setting()
    dc.fit(model, data, quiet=True, **settings)
    other, _ = setting()
    with pytest.raises(KeyboardInterrupt):
        dc.fit(other, data, out=tmp_path, quiet=True, observers=[Breaks(step)], **settings)
    resumed = dc.resume(tmp_path, data, model=Toy, quiet=True)
    assert resumed.steps == 28
    for a, b in zip(model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_variance_of_a_batch_mean_is_that_of_drawing_without_replacement() -> None:
    r"""Over epochs, the mean of a batch has the variance :math:`\frac{\sigma^2}{B} \frac{N - B}{N - 1}`."""
    values = torch.tensor([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, -5.0, 0.5], dtype=torch.float64)
    batch, generator = Batch(values[:, None]), torch.Generator().manual_seed(0)
    orders: Tensor = torch.stack([batch.order(2, generator) for _ in range(20_000)])
    variance = values.var(correction=0)
    for size in (1, 2, 4, 8):
        means = values[orders[:, :size]].mean(1)
        expected = variance / size * (8 - size) / 7
        assert means.var(correction=0).item() == pytest.approx(expected.item(), rel=0.05, abs=1e-12)
        assert means.mean().item() == pytest.approx(
            values.mean().item(), abs=4 * (variance / size / 20_000).sqrt().item()
        )
