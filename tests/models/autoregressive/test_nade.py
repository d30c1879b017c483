"""The chunks against the recurrence of the paper written as a loop, and the distribution by enumeration."""

from itertools import product

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from deepcanon.core import Batch, DataError, UsageError
from deepcanon.models.autoregressive import nade
from deepcanon.models.autoregressive._autoregressive import Autoregressive
from deepcanon.models.autoregressive.nade import NADE


def model_of(features: int, units: int, seed: int = 0, scale: float = 1.0) -> NADE:
    torch.manual_seed(seed)
    model = NADE(features, units).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(scale * torch.randn_like(parameter))
    return model


def by_loop(model: NADE, x: Tensor) -> Tensor:
    """The logits by equation (1), one value after the other."""
    a, logits = model.hidden_bias.expand(len(x), -1), []
    for d in range(model.features):
        logits.append(model.visible_bias[d] + a.sigmoid() @ model.readout[d])
        a = a + x[:, d : d + 1] * model.weight[d]
    return torch.stack(logits, 1)


def states(features: int) -> Tensor:
    return torch.tensor(list(product((0.0, 1.0), repeat=features)), dtype=torch.float64)


def examples(count: int, features: int, ink: float) -> Tensor:
    return (torch.rand(count, features, generator=torch.Generator().manual_seed(0)) < ink).double()


def test_the_probabilities_of_all_inputs_sum_to_one() -> None:
    model = model_of(12, 5)
    with torch.no_grad():
        total = model.log_prob(states(12)).exp().sum()
    assert abs(total - 1) < 1e-12


@pytest.mark.parametrize("chunk", [1, 4, 7, 100])
@pytest.mark.parametrize("ink", [0.0, 0.15, 0.5, 1.0])
def test_chunks_give_the_logits_and_gradients_of_the_loop(
    chunk: int, ink: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nade, "CHUNK", chunk)
    model, x = model_of(13, 6), examples(9, 13, ink)
    torch.testing.assert_close(model.logits(x), by_loop(model, x), rtol=0, atol=1e-12)
    expected = binary_cross_entropy_with_logits(by_loop(model, x), x, reduction="none").sum(1).mean()
    parameters = list(model.parameters())
    loop = torch.autograd.grad(expected, parameters, allow_unused=True)
    loss = model.loss(Batch(x))["nll"]
    fast = torch.autograd.grad(loss, parameters)
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-12)
    for gradient, wanted in zip(fast, loop, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-10)


def test_a_value_depends_on_those_before_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nade, "CHUNK", 4)
    model, x = model_of(10, 5), examples(3, 10, 0.3)
    jacobian = torch.autograd.functional.jacobian(lambda one: model.logits(one).sum(0), x)  # (10, 3, 10)
    wanted = torch.autograd.functional.jacobian(lambda one: by_loop(model, one).sum(0), x)
    torch.testing.assert_close(jacobian, wanted, rtol=0, atol=1e-12)
    later = torch.ones(10, 10).triu().bool().unsqueeze(1).expand(10, 3, 10)
    assert torch.equal(jacobian[later], torch.zeros_like(jacobian[later]))
    assert (jacobian[~later].abs() > 0).all()


def test_samples_follow_the_probabilities() -> None:
    model = model_of(5, 4)
    with torch.no_grad():
        expected = 20000 * model.log_prob(states(5)).exp()
    drawn = model.sample(20000, generator=torch.Generator().manual_seed(0))
    counts = (drawn @ 2.0 ** torch.arange(4, -1, -1, dtype=drawn.dtype)).long().bincount(minlength=32)
    often = expected >= 5
    statistic = ((counts - expected).square() / expected)[often].sum()
    assert statistic < stats.chi2.isf(1e-4, int(often.sum()))


def test_a_sample_is_that_of_the_general_method() -> None:
    model = model_of(40, 4, scale=0.5)
    one, other = (
        draw(model, 7, generator=torch.Generator().manual_seed(3)) for draw in (NADE.sample, Autoregressive.sample)
    )
    assert torch.equal(one, other)


def test_the_initialization_is_at_the_base_rates() -> None:
    model, x = NADE(3, 2), torch.tensor([[0.0, 0.0, 1.0]] * 6 + [[0.0, 1.0, 1.0]] * 2)
    model.prepare([Batch(x[:5]), Batch(x[5:])])
    torch.testing.assert_close(model.visible_bias.detach().sigmoid(), torch.tensor([0.1, 0.3, 0.9]))


def test_other_values_than_zeros_and_ones_are_refused() -> None:
    model, gray = NADE(4, 2), torch.tensor([[0.0, 0.25, 1.0, 0.0]])
    for ask in (model.log_prob, lambda x: model.prepare([Batch(x)])):
        with pytest.raises(DataError, match="nade models zeros and ones"):
            ask(gray)
    with pytest.raises(UsageError, match="units must be at least 1"):
        NADE(4, 0)


def test_an_exported_model_takes_batches_of_any_size() -> None:
    model, x = model_of(9, 4), examples(5, 9, 0.3)
    program = torch.export.export(model, (x[:3],), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.testing.assert_close(program.module()(x), by_loop(model, x).sigmoid())
