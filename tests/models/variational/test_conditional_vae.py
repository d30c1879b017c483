"""The conditional VAE: its linear case in closed form, classes in every method, samples of the right class."""

import math
from typing import Any

import pytest
import torch
from sklearn.svm import SVC
from torch import Generator, Tensor
from torch.distributions import MultivariateNormal

from deepcanon.core import DataError, Labeled, UsageError
from deepcanon.data import load_data
from deepcanon.models.variational.conditional_vae import ConditionalVAE, PriorName
from deepcanon.train import fit

FEATURES, CLASSES, LATENT = 4, 3, 2


def linear(prior: PriorName = "learned") -> ConditionalVAE:
    torch.manual_seed(0)
    model = ConditionalVAE(FEATURES, CLASSES, LATENT, hidden=(), prior=prior).double()
    if model.priors is not None:
        torch.nn.init.normal_(model.priors, std=0.5)
    return model


def exact(model: ConditionalVAE, y: int) -> MultivariateNormal:
    """p(x | y) of a model without hidden layers: N(W mu_y + V_y + b, W diag(s_y^2) W' + s^2 I)."""
    (layer,) = model.decoder.net.children()
    likelihood: Any = model.decoder.likelihood
    assert isinstance(layer, torch.nn.Linear)
    weight, shift = layer.weight.detach().split([LATENT, CLASSES], 1)
    prior = model.given(y).prior()
    mean, spread = prior.mean.detach().reshape(LATENT), prior.stddev.detach().reshape(LATENT)
    noise = likelihood.scale.detach().square() * torch.eye(FEATURES, dtype=weight.dtype)
    return MultivariateNormal(
        weight @ mean + shift[:, y] + layer.bias.detach(), (weight * spread) @ (weight * spread).T + noise
    )


@pytest.mark.parametrize("prior", ["standard", "learned"])
def test_the_bound_lies_below_the_exact_evidence_of_each_class_and_many_samples_reach_it(prior: PriorName) -> None:
    model = linear(prior)
    for parameter in model.encoder.parameters():
        torch.nn.init.zeros_(parameter)  # a wide posterior: a loose bound, and weights without heavy tails
    y = torch.arange(6) % CLASSES
    x = model.sample(6, context=y, generator=Generator().manual_seed(0))
    wanted = torch.stack([exact(model, int(label)).log_prob(row) for row, label in zip(x, y, strict=True)])
    with torch.no_grad():
        tight = torch.stack(
            [model.log_prob(x, context=y, samples=2000, generator=Generator().manual_seed(i)) for i in range(10)]
        )
        loose = torch.stack([model.log_prob(x, context=y, generator=Generator().manual_seed(i)) for i in range(400)])
    assert loose.mean() + 5 * loose.mean(1).std() / 20 < wanted.mean() - 0.1
    assert ((tight.mean(0) - wanted).abs() < 5 * tight.std(0) / math.sqrt(10) + 1e-9).all()
    other = model.log_prob(x, context=(y + 1) % CLASSES, samples=5000)
    assert not torch.allclose(other, wanted, atol=0.1)


@pytest.mark.parametrize("prior", ["standard", "learned"])
def test_samples_of_a_class_have_the_moments_of_the_exact_marginal(prior: PriorName) -> None:
    model = linear(prior)
    x = model.sample(60_000, context=torch.arange(CLASSES).repeat(20_000), generator=Generator().manual_seed(0))
    for y in range(CLASSES):
        rows, wanted = x[y::CLASSES], exact(model, y)
        torch.testing.assert_close(rows.mean(0), wanted.mean, rtol=0, atol=0.03)
        torch.testing.assert_close(torch.cov(rows.T), wanted.covariance_matrix, rtol=0, atol=0.04)


def test_a_class_for_each_example_or_one_for_all_goes_through_every_method() -> None:
    model, batch = ConditionalVAE.example()
    model, x, y = model.double(), batch.x.double()[:6], batch.y[:6]
    many = model.given(y)
    asked: dict[str, Any] = {
        "encode": lambda m, rows: m.encode(rows).mean,
        "reconstruct": lambda m, rows: m.reconstruct(rows),
        "forward": lambda m, rows: m(rows),
        "decode": lambda m, rows: m.decode(rows[:, :2]).mean,
    }
    for name, ask in asked.items():
        together: Tensor = ask(many, x)
        alone = torch.cat([ask(model.given(int(y[i])), x[i : i + 1]) for i in range(6)])
        torch.testing.assert_close(together, alone, msg=name)
        assert not torch.allclose(together, ask(model.given((y + 1) % 3), x)), name
    one = model.log_prob(x, context=torch.tensor([2]), samples=4, generator=Generator().manual_seed(0))
    six = model.log_prob(x, context=torch.full((6,), 2), samples=4, generator=Generator().manual_seed(0))
    assert torch.equal(one, six)


def test_the_loss_is_the_bound_of_the_labels() -> None:
    model, batch = ConditionalVAE.example()
    torch.manual_seed(1)
    terms = model.loss(batch)
    torch.manual_seed(1)
    bound = model.log_prob(batch.x, context=batch.y)
    torch.testing.assert_close(terms["reconstruction"] + terms["kl"], -bound.mean())
    assert terms.keys() == {"reconstruction", "kl"}


def test_at_first_the_learned_prior_is_the_standard_one_and_then_it_moves() -> None:
    model, batch = ConditionalVAE.example()
    prior = model.given(batch.y).prior()
    assert torch.equal(prior.mean, torch.zeros(32, 2))
    assert torch.equal(prior.stddev, torch.ones(32, 2))
    torch.stack(list(model.loss(batch).values())).sum().backward()
    assert model.priors is not None
    assert model.priors.grad is not None
    assert (model.priors.grad.abs().sum(1) > 0).all()


def test_the_gallery_has_a_row_for_each_class_and_the_same_latents_in_each() -> None:
    model, batch = ConditionalVAE.example()
    shown = model.gallery(batch.x[:5], generator=Generator().manual_seed(0))
    assert list(shown) == ["class 0", "class 1", "class 2"]
    assert all(row.shape == (5, 4) for row in shown.values())
    assert not torch.equal(shown["class 0"], shown["class 1"])


def test_without_a_class_it_refuses_and_of_classes_it_takes_only_its_own() -> None:
    model, batch = ConditionalVAE.example()
    for ask in (lambda: model.sample(3), lambda: model.log_prob(batch.x), lambda: model.encode(batch.x)):
        with pytest.raises(UsageError, match="conditional_vae is conditional: give classes"):
            ask()
    with pytest.raises(DataError, match="classes 0 to 2, got the class 3"):
        model.sample(3, context=torch.tensor([3]))
    with pytest.raises(DataError, match="got 2 rows for 3 examples"):
        model.sample(3, context=torch.tensor([0, 1]))
    with pytest.raises(UsageError, match="prior must be one of standard, learned"):
        ConditionalVAE(4, 3, prior="flat")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="classes must be at least 1"):
        ConditionalVAE(4, 0)


@pytest.mark.slow
def test_samples_are_of_their_class_by_a_classifier_that_has_never_seen_the_model() -> None:
    data = load_data("digits:dequantized")
    judge = SVC(C=10).fit(data.train.x.flatten(1).numpy(), data.train.y.numpy())
    assert judge.score(data.split("test").x.flatten(1).numpy(), data.split("test").y.numpy()) > 0.97
    torch.manual_seed(0)
    model = ConditionalVAE(64, 10)
    fit(model, data, quiet=True, seed=0, evaluate=False)
    y = torch.arange(2000) % 10
    x = model.sample(len(y), context=y, generator=Generator().manual_seed(0))
    assert (judge.predict(x.flatten(1).numpy()) == y.numpy()).mean() > 0.95


def test_training_on_examples_with_labels_lowers_the_bound() -> None:
    model, batch = ConditionalVAE.example()
    before = torch.stack(list(model.loss(batch).values())).sum().item()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(100):
        optimizer.zero_grad()
        torch.stack(list(model.loss(Labeled(batch.x, batch.y)).values())).sum().backward()
        optimizer.step()
    assert torch.stack(list(model.loss(batch).values())).sum().item() < before - 1
