"""The deep belief network: tied it is the machine that it began as, and its bound stays below the enumerated log p."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

import deepcanon as dc
from deepcanon.core import Batch, DataError, Descend, UsageError
from deepcanon.data import load_data
from deepcanon.models.energy.dbn import DBN
from deepcanon.models.energy.rbm import RBM


def states(units: int) -> Tensor:
    return torch.cartesian_prod(*[torch.tensor([0.0, 1.0], dtype=torch.float64)] * units)


def network(features: int, hidden: tuple[int, ...], scale: float = 1.0, **arguments: Any) -> DBN:
    torch.manual_seed(0)
    model = DBN(features, hidden, **arguments).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=scale)
    return model


def enumerated(model: DBN) -> Tensor:
    """log p of all visible states by sums over all hidden ones, from the weights alone; of two hidden layers."""
    layers: Any = model.layers
    first, top = layers
    v, h = states(first.width), states(first.units)
    up = states(top.units)
    energy = -(h @ top.weight @ up.T) - (h @ top.visible_bias).unsqueeze(1) - up @ top.hidden_bias
    log_h = (-energy).flatten().log_softmax(0).reshape(len(h), len(up)).logsumexp(1)
    on = (h @ first.weight.T + first.visible_bias).sigmoid()
    log_v = torch.stack([(v * p.log() + (1 - v) * (1 - p).log()).sum(1) for p in on], 1)
    found: Tensor = (log_v + log_h).logsumexp(1).detach()
    return found


@pytest.mark.parametrize("units", [4, 6])
def test_a_network_whose_top_is_tied_is_the_machine_below(units: int) -> None:
    """Every draw of the bound is then log p itself, since q is the posterior; further units have no weight yet."""
    torch.manual_seed(0)
    model, rbm = DBN(4, (3, units)).double(), RBM(4, 3).double()
    nn.init.zeros_(model.top.weight)
    for parameter in rbm.parameters():
        nn.init.normal_(parameter)
    first = model.layers[0]
    first.load_state_dict(rbm.state_dict())
    model._tie(0)
    model._begin(1)
    expected = rbm.log_prob(states(4)).detach()
    torch.testing.assert_close(enumerated(model), expected)
    for seed in range(3):
        found = model.log_prob(states(4), samples=1, generator=Generator().manual_seed(seed))
        torch.testing.assert_close(found, expected)


def test_the_bound_stays_below_log_p_and_rises_with_more_samples() -> None:
    model = network(4, (3, 3), scale=0.8)
    exact, means = enumerated(model), []
    for samples in (1, 4, 32):
        torch.manual_seed(1)
        rows = states(4).repeat(4000 // samples, 1)
        draws = model.log_prob(rows, samples=samples).reshape(-1, 16)
        means.append(draws.mean(0))
        assert ((draws.mean(0) - exact) < 4 * draws.std(0) / len(draws) ** 0.5).all()
    assert model.likelihood_kind == "lower bound"
    assert (means[0] < exact - 0.01).all()
    assert means[0].mean() < means[1].mean() < means[2].mean()


def test_the_weights_of_the_bound_have_the_mean_p() -> None:
    """The importance weights of q are unbiased: their mean, not that of their logarithms, is p(v)."""
    model = network(3, (3, 2), scale=0.7)
    found = model.log_prob(states(3), samples=20000, generator=Generator().manual_seed(0))
    torch.testing.assert_close(found, enumerated(model), rtol=0, atol=0.03)


def test_samples_follow_the_enumeration() -> None:
    model = network(3, (3, 2))
    expected = enumerated(model).exp()
    drawn = model.sample(4000, generator=Generator().manual_seed(0))
    shares = (drawn @ torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)).long().bincount(minlength=8) / 4000
    assert ((shares - expected).abs() / (expected * (1 - expected) / 4000).sqrt()).max() < 4.5


def test_an_annealed_top_shifts_the_bound_by_the_error_of_its_log_z(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(4, (3, 3), scale=0.5)
    bound = model.log_prob(states(4), samples=5, generator=Generator().manual_seed(0))
    monkeypatch.setattr(type(model.top), "MOST", 1)
    monkeypatch.setattr(type(model.top), "TEMPERATURES", 100)
    assert model.likelihood_kind == "estimate"
    shift = model.log_prob(states(4), samples=5, generator=Generator().manual_seed(0)) - bound
    torch.testing.assert_close(shift, shift[:1].expand(16))
    assert 0 < shift[0].abs() < 0.05
    assert list(model.metrics(Batch(states(4)))) == ["reconstruction_error"]


def test_wake_and_sleep_are_the_log_likelihoods_of_their_samples() -> None:
    """The terms of the up-down loss on given samples, against torch's Bernoulli; each trains its own weights only."""
    model, x = network(4, (3, 2)), states(4)
    layers = model._up(x, 1)
    first: Any = model.layers[0]
    q: Any = model.recognition[0]
    below = torch.distributions.Bernoulli(logits=layers[1] @ first.weight.T + first.visible_bias)
    above = torch.distributions.Bernoulli(logits=layers[0] @ q.weight.T + q.bias)
    torch.testing.assert_close(model._log_generative(layers), below.log_prob(layers[0]).sum(1))
    torch.testing.assert_close(model._log_recognition(layers), above.log_prob(layers[1]).sum(1))
    terms = model.up_down(Batch(x))
    named = dict(model.named_parameters())
    touched = {
        term: {
            name
            for name, part in zip(named, torch.autograd.grad(value, [*named.values()], allow_unused=True), strict=True)
            if part is not None
        }
        for term, value in terms.items()
    }  # fmt: skip
    assert touched["wake"] == {"layers.0.weight", "layers.0.visible_bias"}
    assert touched["sleep"] == {"recognition.0.weight", "recognition.0.bias"}
    assert touched["top"] == {f"layers.1.{name}" for name in ("weight", "visible_bias", "hidden_bias")}


@pytest.mark.slow
@pytest.mark.parametrize("fine_tuning", [0.0, 0.3])
def test_a_short_training_is_far_better_than_pixel_by_pixel(fine_tuning: float) -> None:
    data = load_data("digits:binary")
    torch.manual_seed(0)
    model = DBN(64, (32, 8), fine_tuning=fine_tuning)
    dc.fit(model, data, quiet=True, epochs=30, lr=0.5, evaluate=False)
    x, rates = data.split("test").x.flatten(1), (data.train.x.flatten(1).sum(0) + 1) / (len(data.train) + 2)
    alone = -torch.distributions.Bernoulli(rates).log_prob(x).sum(1).mean().item()
    assert model.metrics(Batch(x))["nll"].item() < alone - 2
    recognition: Any = model.recognition[0]
    assert torch.equal(recognition.weight, model._layer(0).weight.T) == (fine_tuning == 0)


def test_each_layer_learns_as_fast_as_its_width_allows_and_fine_tuning_far_slower() -> None:
    small, large = (
        [turn.lr for turn in DBN(8, hidden).turns() if isinstance(turn, Descend)] for hidden in ((100, 14), (500, 2000))
    )
    assert small == pytest.approx([0.5, 0.5, 0.02])
    assert large == pytest.approx([0.1, 0.025, 0.004])


def test_what_is_no_deep_belief_network_is_refused() -> None:
    with pytest.raises(UsageError, match="at least two hidden layers"):
        DBN(4, (3,))
    with pytest.raises(UsageError, match="fine_tuning is a share"):
        DBN(4, (3, 2), fine_tuning=1)
    with pytest.raises(DataError, match="dbn models zeros and ones"):
        DBN(4, (3, 2)).log_prob(torch.full((1, 4), 0.5))
