"""Growing the batch or decaying the rate: the same noise in every epoch, and the same cloud on a quadratic function."""

import json
import math
from statistics import fmean

import numpy as np
import pytest
import torch
from scipy.linalg import solve_discrete_lyapunov
from torch import Generator

from deepcanon import find
from deepcanon.core import UsageError
from deepcanon.data import load_data
from deepcanon.insights._engines.objective import Objective
from deepcanon.studies.batch_growth import batch_growth, cloud, measured_cloud, mislabeled, steepest


@pytest.mark.parametrize("step", [0.05, 0.3, 1.0, 1.7])
def test_the_cloud_is_the_fixed_point_of_lyapunovs_equation(step: float) -> None:
    """One step takes theta to (1 - a) theta + a times the mean of a batch."""
    (fixed,) = solve_discrete_lyapunov(np.array([[1 - step]]), np.array([[step**2 / 8]])).ravel()
    assert cloud(step, 8) == pytest.approx(fixed, rel=1e-12)


@pytest.mark.parametrize("step", [0.1, 0.5, 1.0, 1.6])
def test_descents_end_in_that_cloud(step: float) -> None:
    assert measured_cloud(step, 4, Generator().manual_seed(0)) == pytest.approx(cloud(step, 4), rel=0.08)


def test_half_the_rate_and_twice_the_batch_leave_the_same_cloud_to_first_order() -> None:
    for step in (0.1, 0.01, 0.001):
        ratio = cloud(step, 8) / cloud(step / 2, 4)
        assert ratio == pytest.approx(1 + step / 4, abs=step**2 / 4)
    generator = Generator().manual_seed(0)
    small = measured_cloud(0.1, 8, generator) / measured_cloud(0.05, 4, generator)
    large = measured_cloud(1.6, 8, generator) / measured_cloud(0.8, 4, generator)
    assert small == pytest.approx(1, abs=0.1)
    assert large == pytest.approx(3, abs=0.3)  # (2 - 0.8) / (2 - 1.6)


@pytest.mark.slow
def test_both_ways_have_the_same_noise_and_learning_curve_but_not_as_many_steps() -> None:
    state = torch.get_rng_state()
    finding = batch_growth(find("mlp"), wrong=0.4, hidden=16, rates=(0.2,), first=8, stages=2, stage=2, seeds=2)
    assert torch.equal(torch.get_rng_state(), state)
    (run,) = finding.numbers["runs"]
    count = finding.numbers["examples"]
    assert run["decay"]["rates"] == pytest.approx([0.2, 0.2, 0.05, 0.05])
    assert run["growth"]["sizes"] == [8, 8, 32, 32]
    assert run["growth"]["noise"] == pytest.approx(run["decay"]["noise"], rel=1e-12)
    assert run["decay"]["noise"] == pytest.approx([rate * count / 8 for rate in run["decay"]["rates"]], rel=1e-12)
    assert run["growth"]["steps"][-1] == 2 * math.ceil(count / 8) + 2 * math.ceil(count / 32)
    assert run["decay"]["steps"][-1] == run["neither"]["steps"][-1] == 4 * math.ceil(count / 8)
    for name in ("growth", "neither"):  # up to the end of the first stage nothing differs
        for own, other in zip(run[name]["losses"], run["decay"]["losses"], strict=True):
            assert own[:2] == other[:2]
            assert own[2:] != other[2:]
    later = {
        name: fmean(loss for losses in run[name]["losses"] for loss in losses[2:])
        for name in ("decay", "growth", "neither")
    }
    assert abs(later["growth"] - later["decay"]) < 0.2 * (later["neither"] - later["decay"])
    json.dumps(finding.numbers)


def test_the_curvature_is_the_largest_eigenvalue_of_the_hessian() -> None:
    torch.manual_seed(0)
    batch = load_data("moons").train.select(torch.arange(40))
    model = find("mlp")(features=2, classes=2, hidden=(3,))
    loss = Objective(model, batch)
    hessian = torch.autograd.functional.hessian(loss, loss.theta)
    assert steepest(model, batch) == pytest.approx(float(torch.linalg.eigvalsh(hessian)[-1]), rel=1e-6)


def test_so_many_labels_are_wrong() -> None:
    digits = load_data("digits")
    same, half = mislabeled(digits, 0.0, 0), mislabeled(digits, 0.5, 0)
    assert torch.equal(same.train.y, digits.train.y)
    assert float((half.train.y != digits.train.y).double().mean()) == pytest.approx(0.45, abs=0.05)
    assert torch.equal(half.train.x, digits.train.x)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="batches would grow to 4096, but digits has 1257 examples; take fewer stages"):
        batch_growth(find("mlp"), first=64, factor=8)
    with pytest.raises(UsageError, match="wrong is a share of the labels"):
        batch_growth(find("mlp"), wrong=2.0)
    with pytest.raises(UsageError, match="examples with classes; diabetes has none"):
        batch_growth(find("mlp"), data="diabetes")
