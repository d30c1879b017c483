"""The masks against the definition of the paper, and the distribution by enumeration."""

from itertools import product
from typing import Any, get_args

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import linear

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.autoregressive.made import MADE, Order


def model_of(features: int, hidden: tuple[int, ...] = (9, 7), order: Order = "natural", seed: int = 0) -> MADE:
    torch.manual_seed(seed)
    model = MADE(features, hidden, order, activation="tanh").double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return model


def states(features: int) -> Tensor:
    return torch.tensor(list(product((0.0, 1.0), repeat=features)), dtype=torch.float64)


@pytest.mark.parametrize("hidden", [(), (9,), (20, 3, 8)])
def test_the_probabilities_of_all_inputs_sum_to_one(hidden: tuple[int, ...]) -> None:
    with torch.no_grad():
        total = model_of(12, hidden, "shuffled").log_prob(states(12)).exp().sum()
    assert abs(total - 1) < 1e-12


@pytest.mark.parametrize("order", get_args(Order))
def test_a_value_depends_on_all_before_it_in_the_order_and_on_no_other(order: Order) -> None:
    model, x = model_of(8, (30, 30), order), states(8)[[5, 77, 200]]
    jacobian = torch.autograd.functional.jacobian(lambda one: model.logits(one).sum(0), x)  # (8, 3, 8)
    rank = torch.tensor(list(model.drawing_order())).argsort()
    later = (rank.unsqueeze(1) <= rank).unsqueeze(1).expand(8, 3, 8)
    assert torch.equal(jacobian[later], torch.zeros_like(jacobian[later]))
    assert (jacobian[~later].abs() > 0).all()
    assert {"natural": rank[0] == 0, "reversed": rank[0] == 7, "shuffled": sorted(rank.tolist()) == [*range(8)]}[order]


def test_the_logits_are_those_of_masks_that_are_filled_entry_by_entry() -> None:
    model, x = model_of(6, (10, 7), "shuffled"), states(6)
    seen = (x - 0.3)[:, model.ordering]  # the law is one of any numbers
    degrees, h = [*range(1, 7)], seen
    layers: Any = model.layers
    for layer, above in zip(layers, model.degrees, strict=True):
        mask = torch.tensor([[float(up >= low) for low in degrees] for up in above.tolist()], dtype=x.dtype)
        h, degrees = torch.tanh(linear(h, mask * layer.weight, layer.bias)), above.tolist()
        assert min(degrees) == 1
        assert max(degrees) == 5
    hidden = torch.tensor([[float(d > low) for low in degrees] for d in range(1, 7)], dtype=x.dtype)
    direct = torch.ones(6, 6, dtype=x.dtype).tril(-1)
    readout, skip = model.output.weight.split([7, 6], 1)
    wanted = h @ (hidden * readout).T + seen @ (direct * skip).T + model.output.bias
    torch.testing.assert_close(model.logits(x - 0.3)[:, model.ordering], wanted, rtol=0, atol=1e-12)


def test_without_hidden_layers_each_value_is_a_logistic_regression_on_those_before_it() -> None:
    model, x = model_of(5, ()), states(5)
    weight = model.output.weight.tril(-1)
    torch.testing.assert_close(model.logits(x), x @ weight.T + model.output.bias, rtol=0, atol=1e-12)


@pytest.mark.parametrize("hidden", [(), (3,), (40, 5, 11)])
@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_a_sample_is_that_of_a_full_pass_for_every_value(hidden: tuple[int, ...], order: Order) -> None:
    model = model_of(23, hidden, order)
    uniform = torch.rand(50, 23, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    x = torch.zeros_like(uniform)
    with torch.no_grad():
        for place in model.ordering.tolist():
            x[:, place] = (uniform[:, place] < model(x)[:, place]).double()
    assert torch.equal(model.sample(50, generator=torch.Generator().manual_seed(3)), x)


def test_samples_follow_the_probabilities() -> None:
    model = model_of(5, (6,), "shuffled")
    with torch.no_grad():
        expected = 20000 * model.log_prob(states(5)).exp()
    drawn = model.sample(20000, generator=torch.Generator().manual_seed(0))
    counts = (drawn @ 2.0 ** torch.arange(4, -1, -1, dtype=drawn.dtype)).long().bincount(minlength=32)
    often = expected >= 5
    statistic = ((counts - expected).square() / expected)[often].sum()
    assert statistic < stats.chi2.isf(1e-4, int(often.sum()))


def test_the_initialization_is_near_the_base_rates() -> None:
    x = torch.tensor([[0.0, 0.0, 1.0]] * 6 + [[0.0, 1.0, 1.0]] * 2)
    model = MADE(3, (), "reversed")
    model.prepare([Batch(x[:5]), Batch(x[5:])])
    torch.testing.assert_close(model.output.bias.detach().flip(0).sigmoid(), torch.tensor([0.1, 0.3, 0.9]))


def test_what_cannot_be_is_refused() -> None:
    model, gray = MADE(4, (2,)), torch.tensor([[0.0, 0.25, 1.0, 0.0]])
    for ask in (model.log_prob, lambda x: model.prepare([Batch(x)])):
        with pytest.raises(DataError, match="made models zeros and ones"):
            ask(gray)
    with pytest.raises(UsageError, match="hidden must be at least 1"):
        MADE(4, (0,))
    with pytest.raises(UsageError, match="order must be one of natural, reversed, shuffled"):
        MADE(4, order="backward")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="activation must be one of"):
        MADE(4, activation="softmax")  # type: ignore[arg-type]
