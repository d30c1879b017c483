"""Sampled output layers tend to the softmax where they say so, and have the optimum that theory gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.nn import AdaptiveImportanceSampling, ImportanceSampling, NegativeSampling, NoiseContrastive, OutputLayer
from deepcanon.nn.sampled_softmax import Sampled

CLASSES = 30


def prepared(cls: type[Sampled], normalized: bool = False) -> tuple[Sampled, Tensor, Tensor]:
    """A layer in double precision that knows its counts, one hidden vector and its class."""
    torch.manual_seed(0)
    layer, h, y = cls(6, CLASSES).double(), 2 * torch.randn(1, 6).double(), torch.tensor([3])
    layer.follow(torch.arange(1, CLASSES + 1))
    if normalized:
        with torch.no_grad():
            layer.scores.bias.sub_(layer.scores(h).logsumexp(-1))
    return layer, h, y


def slope(loss: Tensor, layer: OutputLayer) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss.sum(), list(layer.parameters()))])


@pytest.mark.parametrize("cls", [ImportanceSampling, AdaptiveImportanceSampling])
def test_importance_sampling_tends_to_the_softmax_gradient_with_the_samples(cls: type[Sampled]) -> None:
    layer, h, y = prepared(cls)
    exact = slope(layer.nats(h, y), layer)
    layer.eval()
    distances = []
    for samples in (4, 64, 1024):
        layer.samples = samples
        drawn = [slope(layer.loss(h, y), layer) for _ in range(40)]
        distances.append(float(torch.stack([(each - exact).norm() / exact.norm() for each in drawn]).mean()))
    few, more, many = distances
    assert many < more / 2 < few / 4
    assert many < 0.05


def test_noise_contrastive_estimation_tends_to_the_softmax_gradient_with_k() -> None:
    layer, h, y = prepared(NoiseContrastive, normalized=True)
    assert isinstance(layer, NoiseContrastive)
    exact = slope(layer.nats(h, y), layer)
    layer.samples = None
    distances = []
    for k in (1, 100, 10_000):
        layer.negatives = k
        distances.append(float((slope(layer.loss(h, y), layer) - exact).norm() / exact.norm()))
    few, more, many = distances
    assert many < 0.02 * more  # as 1 / k
    assert more < 0.2 * few
    assert many < 1e-3


def test_negative_sampling_does_not_tend_to_the_softmax_gradient() -> None:
    layer, h, y = prepared(NegativeSampling, normalized=True)
    assert isinstance(layer, NegativeSampling)
    exact = slope(layer.nats(h, y), layer)
    layer.samples, layer.negatives = None, 10_000
    assert float((slope(layer.loss(h, y), layer) - exact).norm() / exact.norm()) > 0.5


@pytest.mark.parametrize("cls", [NegativeSampling, NoiseContrastive])
@pytest.mark.parametrize("negatives", [1, 5])
def test_the_optimum_has_the_probabilities_of_the_data(cls: type[NegativeSampling], negatives: int) -> None:
    p = torch.tensor([0.5, 0.25, 0.15, 0.1]).double()
    layer = cls(1, 4, samples=None, exponent=1.0, negatives=negatives).double()
    layer.follow(torch.tensor([1, 4, 2, 3]))
    h, y = torch.zeros(4, 1).double(), torch.arange(4)
    optimizer = torch.optim.LBFGS([layer.scores.bias], max_iter=300, tolerance_grad=1e-12, tolerance_change=0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = p @ layer.loss(h, y)
        loss.backward()
        return loss

    optimizer.step(closure)
    scores, q = layer.scores.bias.detach(), layer.log_q.exp()
    wanted = p.log() if cls is NoiseContrastive else (p / (negatives * q)).log()
    torch.testing.assert_close(scores, wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(layer.log_probs(h[0]).exp(), p, atol=1e-5, rtol=0)


def test_noise_that_adapts_is_worth_more_samples() -> None:
    """A peaked model whose probabilities the counts do not know: the noise comes to know them."""
    torch.manual_seed(0)
    effective = {}
    for cls in (ImportanceSampling, AdaptiveImportanceSampling):
        layer = cls(1, 1000, samples=100)
        layer.follow(torch.ones(1000))
        with torch.no_grad():
            layer.scores.weight.zero_()
            layer.scores.bias.copy_(-torch.arange(1000) / 20)
        sizes = []
        for _ in range(300):
            layer.loss(torch.zeros(8, 1), torch.zeros(8, dtype=torch.long))
            sizes.append(float(layer.report()["effective_samples"]))
        effective[cls] = sum(sizes[-50:]) / 50
    assert effective[ImportanceSampling] < 10
    assert effective[AdaptiveImportanceSampling] > 50
    assert effective[AdaptiveImportanceSampling] <= 100


def test_an_evaluation_changes_no_noise() -> None:
    layer, h, y = prepared(AdaptiveImportanceSampling)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    layer.eval().loss(h, y)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    layer.train().loss(h, y)
    assert not torch.equal(layer.log_q, before["log_q"])
    assert float(layer.log_q.exp().sum()) == pytest.approx(1)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UsageError, match="samples must be at least 1"):
        ImportanceSampling(3, 4, samples=0)
    with pytest.raises(UsageError, match="negatives must be above 0"):
        NoiseContrastive(3, 4, negatives=0)
    with pytest.raises(UsageError, match="rate is a share"):
        AdaptiveImportanceSampling(3, 4, rate=1.0)
