"""The stationary law of the chain against its transition matrix, which is enumerated on few values."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Generator, Tensor

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.autoencoders.generative_stochastic_network import GenerativeStochasticNetwork

DOUBLE = torch.float64
STATES = torch.tensor(list(product((0.0, 1.0), repeat=3)), dtype=DOUBLE)


def chain(hidden: tuple[int, ...] = (6,), corruption: float = 0.5) -> Any:
    torch.manual_seed(0)
    model: Any = GenerativeStochasticNetwork(3, hidden, corruption, chain_steps=40).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that the values depend on each other
    return model


def corruptions(model: Any) -> Tensor:
    """C(x~ | x) for all x (rows) and x~ (columns)."""
    same = STATES.unsqueeze(1) == STATES.unsqueeze(0)
    kept = 1 - model.corruption / 2
    found: Tensor = torch.where(same, kept, 1 - kept).prod(-1)
    return found.to(DOUBLE)


def transitions(model: Any) -> Tensor:
    """The probability of each next state (column) from each state (row)."""
    likely = torch.stack([model.denoise(STATES).log_prob(state.expand(8, 3)) for state in STATES], 1).exp()
    found: Tensor = corruptions(model) @ likely
    return found.detach()


def stationary(matrix: Tensor) -> Tensor:
    found: Tensor = torch.linalg.matrix_power(matrix, 2000)[0]
    return found


def frequencies(x: Tensor) -> Tensor:
    return torch.bincount((x @ torch.tensor([4.0, 2.0, 1.0], dtype=DOUBLE)).long(), minlength=8).to(DOUBLE) / len(x)


def test_samples_have_the_stationary_law_of_the_transition_matrix() -> None:
    model = chain()
    matrix = transitions(model)
    torch.testing.assert_close(matrix.sum(1), torch.ones(8, dtype=DOUBLE))
    wanted = stationary(matrix)
    found = frequencies(model.sample(20_000, generator=Generator().manual_seed(0)))
    assert (found - wanted).abs().max() < 5 * (wanted.max() / 20_000).sqrt()
    assert wanted.max() > 2 * wanted.min()  # a uniform law would prove little


def test_a_step_has_the_probabilities_of_the_matrix() -> None:
    model = chain()
    matrix = transitions(model)
    for place in (0, 5):
        after = model.step(STATES[place].expand(20_000, 3), generator=Generator().manual_seed(place))
        assert (frequencies(after) - matrix[place]).abs().max() < 5 * (0.25 / 20_000) ** 0.5


def test_with_the_exact_posterior_the_data_are_stationary() -> None:
    """Of independent values the posterior given the corrupted ones is known, and the network can be it."""
    rates = torch.tensor([0.2, 0.5, 0.9], dtype=DOUBLE)
    model = chain(hidden=())
    kept = 1 - model.corruption / 2
    logits = rates.logit()
    weight = torch.tensor(kept / (1 - kept), dtype=DOUBLE).log()
    with torch.no_grad():
        model.net[0].weight.copy_(2 * weight * torch.eye(3, dtype=DOUBLE))
        model.net[0].bias.copy_(logits - weight)
    data = torch.where(STATES == 1, rates, 1 - rates).prod(-1)
    torch.testing.assert_close(data @ transitions(model), data, rtol=0, atol=1e-14)
    torch.testing.assert_close(stationary(transitions(model)), data, rtol=0, atol=1e-12)


def test_the_loss_without_walkback_is_the_expected_cross_entropy() -> None:
    model = chain()
    model.walkback = 1
    likely = torch.stack([model.denoise(STATES).log_prob(state.expand(8, 3)) for state in STATES], 1)  # (x~, x)
    wanted = -(corruptions(model) * likely.T).sum(1).mean()
    torch.manual_seed(1)
    many = Batch(STATES.repeat(5000, 1))
    assert model.loss(many)["reconstruction"].item() == pytest.approx(wanted.item(), rel=0.01)


@pytest.mark.slow
def test_samples_of_digits_are_nearer_to_digits_than_independent_pixels() -> None:
    data = dc.load_data("digits:binary")
    torch.manual_seed(0)
    model = GenerativeStochasticNetwork(features=64)
    dc.fit(model, data, epochs=40, quiet=True, evaluate=False)
    digits = data.train.x.flatten(1)
    pixels = torch.bernoulli(digits.mean(0).expand(300, -1), generator=Generator().manual_seed(0))
    drawn = model.sample(300, generator=Generator().manual_seed(0))
    near, far = (torch.cdist(x, digits, p=1).amin(1).mean().item() for x in (drawn, pixels))
    assert near < 0.7 * far, (near, far)


@pytest.mark.parametrize("wrong", [{"corruption": 1.0}, {"walkback": 0}])
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        GenerativeStochasticNetwork(features=4, **wrong)
