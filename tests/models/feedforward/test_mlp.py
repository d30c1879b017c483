"""The MLP: exact parameter counts, torch's own layers as its oracle, and its accuracy on real digits."""

import itertools

import pytest
import torch
from torch import nn

from deepcanon.core import Labelled, UsageError
from deepcanon.data import from_tensors, load_data
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.train import fit


@pytest.mark.parametrize("hidden", [(), (7,), (512, 512), (5, 4, 3, 2)])
def test_the_number_of_parameters_is_that_of_the_formula(hidden: tuple[int, ...]) -> None:
    model = MLP(features=784, classes=10, hidden=hidden)
    widths = (784, *hidden, 10)
    formula = sum((before + 1) * after for before, after in itertools.pairwise(widths))
    assert sum(parameter.numel() for parameter in model.parameters()) == formula


def test_a_net_of_one_width_has_the_count_of_the_textbook() -> None:
    inputs, width, depth, outputs = 6, 5, 4, 3
    model = MLP(features=inputs, targets=outputs, hidden=(width,) * depth)
    formula = inputs * width + width + (depth - 1) * (width**2 + width) + width * outputs + outputs
    assert sum(parameter.numel() for parameter in model.parameters()) == formula


def test_it_is_torchs_own_layers_in_a_row() -> None:
    model = MLP(features=12, classes=4, hidden=(9, 8), activation="gelu", dropout=0.5).double()
    oracle = nn.Sequential(
        nn.Linear(12, 9), nn.GELU(), nn.Dropout(0.5), nn.Linear(9, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 4)
    ).double()
    weights = zip(oracle.state_dict(), model.state_dict().values(), strict=True)
    oracle.load_state_dict(dict(weights))
    x = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    for training in (True, False):
        model.train(training), oracle.train(training)
        torch.manual_seed(0)
        ours = model(x)
        torch.manual_seed(0)
        assert torch.equal(ours, oracle(x.flatten(1)))


def test_no_dropout_is_the_plain_net_bit_for_bit() -> None:
    torch.manual_seed(0)
    plain = MLP(features=3, classes=2, hidden=(8,))
    torch.manual_seed(0)
    zero = MLP(features=3, classes=2, hidden=(8,), dropout=0.0)
    x = torch.randn(16, 3)
    assert torch.equal(plain(x), zero(x))


def test_a_linear_net_finds_the_least_squares_solution() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 3, generator=generator, dtype=torch.float64)
    y = x @ torch.randn(3, 2, generator=generator, dtype=torch.float64) + 1
    y = y + torch.randn(200, 2, generator=generator, dtype=torch.float64)
    model = MLP(features=3, targets=2, hidden=()).double()
    data = from_tensors(x, y).carved(0)
    fit(model, data, quiet=True, optimizer="lbfgs", lr=1.0, batch_size=200, epochs=20)
    rows = torch.cat([data.train.x, torch.ones(len(data.train), 1, dtype=torch.float64)], dim=1)
    solution = torch.linalg.lstsq(rows, data.train.y).solution
    torch.testing.assert_close(model.predict(data.train.x), rows @ solution, rtol=1e-5, atol=1e-5)


def test_bfloat16_gives_nearly_the_loss_of_float32() -> None:
    torch.manual_seed(0)
    model, batch = MLP.example()
    plain = model.loss(batch)["nll"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = model.loss(batch)["nll"]
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(plain.item(), rel=1e-2)
    assert half.item() != plain.item()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_it_reads_96_and_a_half_percent_of_real_digits(seed: int) -> None:
    data = load_data("digits")
    torch.manual_seed(seed)
    result = fit(MLP(features=64, classes=10), data, quiet=True, seed=seed)
    assert result.test["accuracy"] >= 0.965


def test_it_answers_one_question() -> None:
    for classes, targets in ((None, None), (3, 1)):
        with pytest.raises(UsageError, match="either classes or targets"):
            MLP(features=2, classes=classes, targets=targets)


def test_arguments_are_checked() -> None:
    with pytest.raises(UsageError, match="features must be at least 1"):
        MLP(features=0, classes=2)
    with pytest.raises(UsageError, match="classes must be at least 2"):
        MLP(features=2, classes=1)
    with pytest.raises(UsageError, match="targets must be at least 1"):
        MLP(features=2, targets=0)
    with pytest.raises(UsageError, match="activation must be one of relu"):
        MLP(features=2, classes=2, activation="step")  # type: ignore[arg-type]


def test_each_example_is_answered_by_itself() -> None:
    model = MLP(features=3, classes=2, hidden=(8,), dropout=0.5).double().eval()
    batch = Labelled(torch.randn(6, 3, dtype=torch.float64), torch.zeros(6, dtype=torch.long))
    alone = torch.cat([model(batch.x[i : i + 1]) for i in range(6)])
    torch.testing.assert_close(model(batch.x), alone, rtol=1e-12, atol=1e-12)
