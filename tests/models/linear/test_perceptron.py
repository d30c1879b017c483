"""The perceptron: its rule example by example, Novikoff's bound, no end on XOR, and the codes of several units."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn import linear_model
from sklearn.svm import SVC
from torch import Generator, Tensor

from deepcanon.core import DataError, Labeled, UsageError
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
    model = Perceptron(features=3, classes=2).double()
    model.absorb(batch)
    weight, bias, errors = by_hand(batch)
    torch.testing.assert_close(model.weight[0], weight, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.bias[0], bias, rtol=0, atol=1e-12)
    assert int(model.errors) == errors > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("gap", [0.2, 1.0])
def test_where_a_plane_separates_it_converges_within_novikoffs_bound(gap: float, seed: int) -> None:
    batch = separated(gap, seed)
    model = Perceptron(features=3, classes=2).double()
    result = fit(model, from_tensors(batch.x, batch.y), quiet=True, epochs=500, batch_size=100, seed=seed)
    radius = float((batch.x.square().sum(1) + 1).max().sqrt())
    assert result.train["converged"] == 1
    assert result.train["accuracy"] == 1
    assert 0 < int(model.errors) <= (radius / margin(batch.x, batch.y)) ** 2


def test_it_fails_on_xor_and_says_so() -> None:
    rows = np.column_stack([XOR.x.numpy(), np.ones(4)]) * (2 * XOR.y.numpy() - 1)[:, None]
    assert linprog(np.zeros(3), A_ub=-rows, b_ub=-np.ones(4), bounds=(None, None)).status == 2  # no plane separates
    model = Perceptron(features=2, classes=2)
    short = fit(model, from_tensors(XOR.x, XOR.y), quiet=True, epochs=100)
    errors = int(model.errors)
    assert short.train["converged"] == 0
    assert short.train["accuracy"] < 1
    fit(model, from_tensors(XOR.x, XOR.y), quiet=True, epochs=100)
    assert int(model.errors) >= errors + 100  # one in every epoch at least


def test_an_epoch_is_distinguished_from_its_batches() -> None:
    """The last batch of an epoch without an error does not make one of an epoch that had some."""
    model = Perceptron(features=1, classes=2)
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
    result = fit(Perceptron(features=2, classes=2), load_data("moons"), quiet=True, epochs=5)
    assert result.test["converged"] == 0
    assert 0.75 < result.test["accuracy"] < 0.95


def test_one_hot_units_have_the_weights_of_scikit_learn() -> None:
    digits = load_data("digits")
    x, y = digits.train.x.flatten(1).double(), digits.train.y
    model = Perceptron(features=64, classes=10).double()
    model.absorb(Labeled(x, y))
    peer = linear_model.Perceptron(max_iter=1, tol=None, shuffle=False).fit(x.numpy(), y.numpy())
    np.testing.assert_allclose(model.weight.numpy(), peer.coef_, atol=1e-10)
    np.testing.assert_allclose(model.bias.numpy(), peer.intercept_, atol=1e-10)
    scores = torch.from_numpy(peer.decision_function(x.numpy()))
    torch.testing.assert_close(model(x), scores, rtol=0, atol=1e-9)
    ones = (scores > 0).sum(1)
    assert 0 in ones
    assert int(ones.max()) > 1
    assert float(model.metrics(Labeled(x, y))["undecided"]) == float((ones != 1).double().mean())
    assert torch.equal(model.predict(x)[ones == 1], (scores > 0)[ones == 1].int().argmax(1))


def test_a_class_of_several_units_is_the_one_whose_code_fits_best() -> None:
    """By enumeration: signs of the code against scores; where the outputs are a code, it is that class."""
    model = Perceptron(features=4, classes=5, code="binary").double()
    model.weight.copy_(torch.randn(3, 4, generator=Generator().manual_seed(0), dtype=torch.float64))
    x = torch.randn(300, 4, generator=Generator().manual_seed(1), dtype=torch.float64)
    for outputs, scores, found in zip(model.outputs(x), x @ model.weight.T, model.predict(x).tolist(), strict=True):
        number = int("".join(str(int(bit)) for bit in outputs), 2)
        fits = [sum(s if bit == "1" else -s for bit, s in zip(f"{k:03b}", scores, strict=True)) for k in range(5)]
        assert found == int(torch.stack(fits).argmax())
        assert number > 4 or found == number
    undecided = (model.outputs(x) @ torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64) > 4).double().mean()
    assert 0 < undecided == model.metrics(Labeled(x, torch.zeros(300, dtype=torch.long)))["undecided"]


def test_four_clouds_need_a_code_whose_every_bit_is_linear() -> None:
    """Two units learn the corners of a square if neighbors differ in one bit; else one of them has an XOR."""
    generator = Generator().manual_seed(0)
    cloud = torch.arange(200) % 4
    x = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])[cloud]
    x = x + 0.1 * torch.randn(200, 2, generator=generator)

    def trained(numbers: list[int]) -> tuple[float, float]:
        model = Perceptron(features=2, classes=4, code="binary")
        found = fit(model, from_tensors(x, torch.tensor(numbers)[cloud]), quiet=True, epochs=30).train
        return found["accuracy"], found["converged"]

    assert trained([0b00, 0b01, 0b11, 0b10]) == (1, 1)
    accuracy, converged = trained([0b00, 0b01, 0b10, 0b11])
    assert accuracy < 0.9
    assert converged == 0


def test_several_labels_are_learned_each_as_if_alone() -> None:
    one, other = separated(0.3, seed=0), separated(0.3, seed=1)
    y = torch.stack([one.y, (one.x[:, 0] > 0).long()], 1).double()
    model = Perceptron(features=3, targets=2).double()
    model.absorb(Labeled(one.x, y))
    for unit in range(2):
        alone = Perceptron(features=3, classes=2).double()
        alone.absorb(Labeled(one.x, y[:, unit].long()))
        assert torch.equal(model.weight[unit], alone.weight[0])
        assert torch.equal(model.predict(other.x)[:, unit], alone.predict(other.x).double())
    with pytest.raises(DataError, match=r"zeros and ones of the shape \(B, 2\); got \(200, 2\) from 0 to 0.5"):
        model.absorb(Labeled(one.x, 0.5 * y))


def test_a_code_is_of_classes() -> None:
    with pytest.raises(UsageError, match="either classes or targets"):
        Perceptron(features=2)
    with pytest.raises(UsageError, match="a code is for classes"):
        Perceptron(features=2, targets=3, code="binary")
    with pytest.raises(UsageError, match="code must be one of"):
        Perceptron(features=2, classes=3, code="gray")  # type: ignore[arg-type]
