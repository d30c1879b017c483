"""The perceptron: its rule one example at a time, Novikoff's bound where a plane separates, and no end on XOR."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn.svm import SVC
from torch import Generator, Tensor

from deepcanon.core import Labeled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.linear.perceptron import Perceptron
from deepcanon.train import fit

XOR = Labeled(torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 1, 1, 0]))


def separated(gap: float, seed: int, features: int = 3, count: int = 200) -> Labeled:
    """Points on both sides of a plane, none of which is nearer to it than ``gap``."""
    generator = Generator().manual_seed(seed)
    x = torch.randn(count, features, generator=generator, dtype=torch.float64)
    normal = torch.nn.functional.normalize(torch.randn(features, generator=generator, dtype=torch.float64), dim=0)
    side = (x @ normal + 0.3).sign()
    return Labeled(x + gap * side.unsqueeze(1) * normal, (side > 0).long())


def margin(x: Tensor, y: Tensor) -> float:
    """The widest margin of a plane through the origin of (x, 1): of scikit-learn, on points mirrored at the origin."""
    rows = torch.cat([x, x.new_ones(len(x), 1)], dim=1) * (2 * y - 1).unsqueeze(1)
    both, sides = torch.cat([rows, -rows]).numpy(), np.repeat([1, -1], len(rows))
    plane = SVC(kernel="linear", C=1e9, tol=1e-8).fit(both, sides).coef_[0]
    return float((rows.numpy() @ plane).min() / np.linalg.norm(plane))


def by_hand(batch: Labeled) -> tuple[Tensor, Tensor, int]:
    """One pass of Rosenblatt's rule, example by example."""
    weight, bias, errors = torch.zeros(batch.x.shape[1], dtype=batch.x.dtype), torch.zeros((), dtype=batch.x.dtype), 0
    for x, y in zip(batch.x, 2 * batch.y - 1, strict=True):
        if y * (weight @ x + bias) <= 0:
            weight, bias, errors = weight + y * x, bias + y, errors + 1
    return weight, bias, errors


def test_one_pass_is_the_rule_example_by_example() -> None:
    batch = separated(0.05, seed=0)
    model = Perceptron(features=3).double()
    model.absorb(batch)
    weight, bias, errors = by_hand(batch)
    torch.testing.assert_close(model.weight.data, weight, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.bias.data, bias, rtol=0, atol=1e-12)
    assert int(model.errors) == errors > 1


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("gap", [0.2, 1.0])
def test_where_a_plane_separates_it_converges_within_novikoffs_bound(gap: float, seed: int) -> None:
    batch = separated(gap, seed)
    model = Perceptron(features=3).double()
    result = fit(model, from_tensors(batch.x, batch.y), quiet=True, epochs=500, batch_size=100, seed=seed)
    radius = float((batch.x.square().sum(1) + 1).max().sqrt())
    assert result.train["converged"] == 1
    assert result.train["accuracy"] == 1
    assert 0 < int(model.errors) <= (radius / margin(batch.x, batch.y)) ** 2


def test_it_fails_on_xor_and_says_so() -> None:
    rows = np.column_stack([XOR.x.numpy(), np.ones(4)]) * (2 * XOR.y.numpy() - 1)[:, None]
    assert linprog(np.zeros(3), A_ub=-rows, b_ub=-np.ones(4), bounds=(None, None)).status == 2  # no plane separates
    model = Perceptron(features=2)
    short = fit(model, from_tensors(XOR.x, XOR.y), quiet=True, epochs=100)
    errors = int(model.errors)
    assert short.train["converged"] == 0
    assert short.train["accuracy"] < 1
    fit(model, from_tensors(XOR.x, XOR.y), quiet=True, epochs=100)
    assert int(model.errors) >= errors + 100  # one in every epoch at least


def test_an_epoch_is_distinguished_from_its_batches() -> None:
    """The last batch of an epoch without an error does not make one of an epoch that had some."""
    model = Perceptron(features=1)
    first, second = (Labeled(torch.tensor([[v]]), torch.tensor([c])) for v, c in ((1.0, 1), (2.0, 1)))
    model.prepare([first, second])
    model.absorb(first)
    model.absorb(second)
    assert int(model.errors) == 1
    assert not bool(model.converged)
    model.absorb(first)
    assert not bool(model.converged)
    model.absorb(second)
    assert bool(model.converged)


def test_on_moons_it_never_converges_and_still_beats_guessing() -> None:
    result = fit(Perceptron(features=2), load_data("moons"), quiet=True, epochs=5)
    assert result.test["converged"] == 0
    assert 0.75 < result.test["accuracy"] < 0.95


def test_it_is_a_binary_classifier() -> None:
    with pytest.raises(UsageError, match=r"is a binary classifier \(got 10 classes\)"):
        Perceptron(features=2, classes=10)  # type: ignore[arg-type]
