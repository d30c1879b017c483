"""The machine against sums over all its states, by enumeration that does not use its own code."""

import itertools
import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, DataError, Descend, Terms, UsageError
from deepcanon.models.energy.rbm import RBM
from deepcanon.train import Observer, Trainer


def machine(features: int, units: int, seed: int = 0, scale: float = 1.0, **arguments: object) -> RBM:
    """A machine in double precision with random couplings and biases, its base rates included."""
    torch.manual_seed(seed)
    model = RBM(features, units, **arguments).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for tensor in (*model.parameters(), model.origin):
            tensor.copy_(scale * torch.randn_like(tensor))
    return model


def states(units: int) -> Tensor:
    return torch.tensor(list(product((0.0, 1.0), repeat=units)), dtype=torch.float64)


def joint_energies(model: RBM) -> Tensor:
    """E(v, h) for all pairs of states, straight from the definition: (visible states, hidden states)."""
    v, h = states(model.features), states(model.units)
    coupled = torch.einsum("vi,ij,hj->vh", v, model.weight, h)
    return -coupled - (v @ model.visible_bias).unsqueeze(1) - (h @ model.hidden_bias).unsqueeze(0)


def probabilities(model: RBM) -> Tensor:
    """p(v) of all visible states."""
    with torch.no_grad():
        return (-joint_energies(model)).flatten().softmax(0).reshape(2**model.features, -1).sum(1)


def test_the_free_energy_sums_out_the_hidden_units() -> None:
    model = machine(5, 3)
    expected = -(-joint_energies(model)).logsumexp(1)
    torch.testing.assert_close(model.energy(states(5)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("features", "units"), [(5, 3), (3, 5), (4, 4)])
def test_both_sums_give_the_same_constant(features: int, units: int) -> None:
    model = machine(features, units)
    expected = (-joint_energies(model)).flatten().logsumexp(0)
    for over in ("visible", "hidden", None):
        torch.testing.assert_close(model.exact_log_partition(over), expected, rtol=0, atol=1e-12)


def test_both_sums_agree_on_a_machine_of_many_chunks() -> None:
    model = machine(16, 12, scale=0.5)
    visible, hidden = model.exact_log_partition("visible"), model.exact_log_partition("hidden")
    assert visible is not None
    torch.testing.assert_close(visible, hidden, rtol=0, atol=1e-10)


def test_log_prob_is_that_of_the_joint_distribution() -> None:
    model = machine(5, 3)
    assert model.likelihood_kind == "exact"
    torch.testing.assert_close(model.log_prob(states(5)), probabilities(model).log(), rtol=0, atol=1e-12)


def test_conditionals_are_those_of_the_joint_distribution() -> None:
    model = machine(4, 3)
    joint = (-joint_energies(model)).exp()
    given_v = joint @ states(3) / joint.sum(1, keepdim=True)
    given_h = joint.T @ states(4) / joint.sum(0).unsqueeze(1)
    torch.testing.assert_close(model.encode(states(4)), given_v)
    torch.testing.assert_close(model._down(states(3)).sigmoid(), given_h)


def exact_gradient(model: RBM, x: Tensor) -> list[Tensor]:
    """The gradient of the mean of -log p(x), with p from the table of all joint states."""
    table = (-joint_energies(model)).logsumexp(1).log_softmax(0)
    numbers = (x @ 2.0 ** torch.arange(model.features - 1, -1, -1, dtype=x.dtype)).long()
    return list(torch.autograd.grad(-table[numbers].mean(), list(model.parameters())))


def test_long_chains_give_the_gradient_of_the_likelihood() -> None:
    model = machine(4, 3, gibbs_steps=50, persistent=False, scale=0.7)
    x = states(4)[[0, 3, 3, 9, 14]]
    exact = exact_gradient(model, x)
    rounds, found = 60, []
    for seed in range(rounds):
        torch.manual_seed(seed)
        model.gradient(Batch(x.repeat(100, 1)))
        found.append([parameter.grad for parameter in model.parameters()])
    for place, expected in enumerate(exact):
        estimates = torch.stack([gradients[place] for gradients in found])  # type: ignore[misc]
        error = estimates.std(0) / math.sqrt(rounds)
        assert ((estimates.mean(0) - expected).abs() / error).max() < 5


def after_gibbs_steps(model: RBM, start: Tensor, gibbs_steps: int) -> Tensor:
    """The distribution of the visible states so many Gibbs steps after ``start``, by the matrix of all transitions."""
    joint = (-joint_energies(model)).exp().detach()
    gibbs_step = joint / joint.sum(1, keepdim=True) @ (joint / joint.sum(0)).T  # p(h | v), then p(v' | h)
    after: Tensor = start @ torch.linalg.matrix_power(gibbs_step, gibbs_steps)
    return after


def contrastive_divergence_gradient(model: RBM, data: Tensor, chains: Tensor) -> Tensor:
    """The gradient of F by the weights, on average over one distribution of visible states less that over another."""
    free = -(-joint_energies(model)).logsumexp(1)
    return torch.autograd.grad((data - chains) @ free, model.weight)[0]


@pytest.mark.parametrize("gibbs_steps", [1, 3])
def test_short_chains_give_the_gradient_of_contrastive_divergence(gibbs_steps: int) -> None:
    """Which is that of the data against the chains after k Gibbs steps, and not that of the likelihood."""
    model = machine(4, 3, gibbs_steps=gibbs_steps, persistent=False, scale=2.0)
    places = torch.tensor([0, 3, 3, 9, 14])
    data, found = places.bincount(minlength=16) / 5.0, []
    data = data.double()
    expected = contrastive_divergence_gradient(model, data, after_gibbs_steps(model, data, gibbs_steps))
    exact = contrastive_divergence_gradient(model, data, probabilities(model))
    for seed in range(60):
        torch.manual_seed(seed)
        model.gradient(Batch(states(4)[places].repeat(100, 1)))
        assert model.weight.grad is not None
        found.append(model.weight.grad)
    estimates = torch.stack(found)
    error = estimates.std(0) / math.sqrt(60)
    assert ((estimates.mean(0) - expected).abs() / error).max() < 5
    assert ((estimates.mean(0) - exact).abs() / error).max() > 10


def test_the_bias_of_contrastive_divergence_falls_with_every_gibbs_step_by_the_second_eigenvalue() -> None:
    model = machine(4, 3, scale=2.0)
    data = torch.zeros(16, dtype=torch.float64)
    data[[0, 3, 9, 14]] = 0.25
    exact = contrastive_divergence_gradient(model, data, probabilities(model))
    bias = [
        float((contrastive_divergence_gradient(model, data, after_gibbs_steps(model, data, k)) - exact).norm())
        for k in range(1, 15)
    ]
    assert all(longer < shorter for shorter, longer in itertools.pairwise(bias))
    gibbs_step = after_gibbs_steps(model, torch.eye(16, dtype=torch.float64), 1)
    first, second, *_ = torch.linalg.eigvals(gibbs_step).real.sort(descending=True).values.tolist()
    assert first == pytest.approx(1)
    assert 0.2 < second < 1
    assert bias[-1] / bias[-2] == pytest.approx(second, rel=0.01)


@pytest.mark.parametrize("persistent", [True, False])
def test_the_gradient_by_hand_is_the_gradient_of_the_loss(persistent: bool) -> None:
    model = machine(6, 4, gibbs_steps=3, persistent=persistent, chains=7)
    batch = Batch(states(6)[[1, 5, 8, 33, 60]])
    (turn,) = model.turns()
    assert isinstance(turn, Descend)
    assert turn.gradient is not None
    begin = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(1)
    (loss,) = model.loss(batch).values()
    expected = torch.autograd.grad(loss, list(model.parameters()))
    chains = dict(model.named_buffers()).get("chains", torch.zeros(())).clone()
    model.load_state_dict(begin)
    torch.manual_seed(1)
    torch.testing.assert_close(turn.gradient(batch)()["contrastive_divergence"], loss.detach())
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-12)
    torch.testing.assert_close(dict(model.named_buffers()).get("chains", torch.zeros(())), chains)


def test_persistent_chains_go_on_in_training_and_rest_in_evaluation() -> None:
    model = machine(6, 4, chains=5)
    batch, begin = Batch(states(6)[:3]), model.chains.clone()
    model.eval().loss(batch)
    assert torch.equal(model.chains, begin)
    model.train().loss(batch)
    assert not torch.equal(model.chains, begin)


def test_persistent_chains_follow_the_model() -> None:
    model = machine(4, 3, gibbs_steps=50, chains=4000)
    seen = model.negatives(states(4))
    expected = probabilities(model)
    counts = (seen @ 2.0 ** torch.arange(3, -1, -1, dtype=seen.dtype)).long().bincount(minlength=16)
    assert ((counts - 4000 * expected).square() / (4000 * expected)).sum() < 45  # 15 degrees of freedom, p = 8e-5


@pytest.mark.slow
def test_annealing_is_right_within_its_error_and_the_two_directions_bracket_the_truth() -> None:
    model = machine(8, 6)
    exact = model.exact_log_partition()
    assert exact is not None
    generator = torch.Generator().manual_seed(0)
    good = model.annealed_log_partition(chains=500, temperatures=500, generator=generator)
    assert 0 < good.error < 0.1
    assert abs(good.value - exact) < 4 * good.error
    # With few temperatures and a chain at a time the two directions err visibly, each to its own side.
    numbers = torch.multinomial(probabilities(model), 300, replacement=True, generator=generator)
    forward = torch.stack(
        [model.annealed_log_partition(chains=1, temperatures=10, generator=generator).value for _ in range(300)]
    )
    backward = torch.stack(
        [model.reverse_log_partition(x[None], temperatures=10, generator=generator).value for x in states(8)[numbers]]
    )
    for estimates, side in ((forward, -1), (backward, 1)):
        error = estimates.std() / math.sqrt(len(estimates))
        assert side * (estimates.mean() - exact) > 4 * error
    many = model.reverse_log_partition(states(8)[numbers], temperatures=500, generator=generator)
    assert abs(many.value - exact) < 4 * many.error + 0.01


@pytest.mark.slow
def test_what_cannot_be_enumerated_is_estimated_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = machine(8, 6), states(8)[::17]
    exact = model.log_prob(x)
    monkeypatch.setattr(RBM, "MOST", 10)
    assert model.likelihood_kind == "estimate"
    estimate = model.log_prob(x, samples=300, generator=torch.Generator().manual_seed(0))
    error = model.log_partition(chains=300, generator=torch.Generator().manual_seed(0)).error
    assert 0 < (estimate - exact).abs().max() < 4 * error
    assert not estimate.requires_grad  # the estimate has no useful gradient, so it has none
    assert list(model.metrics(Batch(x))) == ["pseudo_nll"]
    assert RBM(784, 500).likelihood_kind == "estimate"


@pytest.mark.parametrize("probes", [64, 4])
def test_the_pseudo_likelihood_is_the_product_of_conditionals(probes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RBM, "PROBES", probes)
    model, x = machine(6, 4), states(6)
    table = model.log_prob(x)
    expected = torch.zeros(64, dtype=torch.float64)
    for place in range(6):
        flipped = torch.arange(64) ^ (1 << place)
        expected -= table - torch.logaddexp(table, table[flipped])
    found = torch.stack([model.pseudo_nll(x) for _ in range(1 if probes == 64 else 400)])
    error = 1e-10 if probes == 64 else 5 * found.std(0).max() / 20
    assert ((found.mean(0) - expected).abs() < error).all()


def test_samples_follow_the_probabilities() -> None:
    model = machine(4, 3, scale=1.5)
    drawn = model.sample(4000, generator=torch.Generator().manual_seed(0))
    expected = 4000 * probabilities(model)
    counts = (drawn @ 2.0 ** torch.arange(3, -1, -1, dtype=drawn.dtype)).long().bincount(minlength=16)
    often = expected >= 5
    assert ((counts - expected).square() / expected)[often].sum() < 45


def test_training_begins_at_the_base_rates() -> None:
    model, x = RBM(3, 2), torch.tensor([[0.0, 0.0, 1.0]] * 6 + [[0.0, 1.0, 1.0]] * 2)
    model.prepare([Batch(x[:5]), Batch(x[5:])])
    torch.testing.assert_close(model.visible_bias.detach().sigmoid(), torch.tensor([0.1, 0.3, 0.9]))
    torch.testing.assert_close(model.base().mean, torch.tensor([0.1, 0.3, 0.9]))


@pytest.mark.parametrize(("units", "rate"), [(2, 0.3), (100, 0.3), (500, 0.1)])
def test_the_recipe_learns_more_slowly_the_more_hidden_units_there_are_and_a_given_rate_is_kept(
    units: int, rate: float
) -> None:
    assert RBM(4, units).recipe.lr == pytest.approx(rate)
    data, rates = dc.from_tensors(torch.eye(4).repeat(10, 1)), list[float]()

    class Watch(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            rates.append(trainer.lr())

    asked: list[dict[str, Any]] = [{}, {"lr": 0.1}]
    for given in asked:
        dc.fit(RBM(4, units), data, quiet=True, steps=1, schedule="constant", observers=[Watch()], **given)
    assert rates == pytest.approx([rate, 0.1])


def test_other_values_than_zeros_and_ones_are_refused() -> None:
    model, gray = RBM(4, 2), torch.tensor([[0.0, 0.25, 1.0, 0.0]])
    for ask in (model.log_prob, model.energy, model.pseudo_nll, lambda x: model.prepare([Batch(x)])):
        with pytest.raises(DataError, match=r"rbm models zeros and ones.*NAME:binary"):
            ask(gray)
    with pytest.raises(UsageError, match="gibbs_steps must be at least 1"):
        RBM(4, 2, gibbs_steps=0)


@pytest.mark.slow
def test_bars_and_stripes_are_learned_to_a_tenth_of_a_nat() -> None:
    data = dc.load_data("bars-and-stripes")
    torch.manual_seed(0)
    model = RBM(9, units=24, gibbs_steps=10)
    result = dc.fit(model, replace(data, valid=None), quiet=True, steps=3000, lr=0.3, schedule="linear")
    assert 0 < result.test["nll"] - math.log(14) < 0.1
