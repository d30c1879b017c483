"""The loss of pairs is the sum written out; two examples of a new class are told from others after one of each."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

import deepcanon as dc
from deepcanon.core import Labeled, methods_of
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.methods.siamese import Siamese
from deepcanon.models.feedforward.mlp import MLP


def test_the_loss_is_the_sum_over_all_pairs() -> None:
    torch.manual_seed(0)
    model = ToyClassifier(features=3, classes=3).double()
    method = Siamese(model, objective="verification")
    with torch.no_grad():
        method.log_weights.normal_()
    x, y = torch.randn(9, 3, dtype=torch.float64), torch.arange(9) % 3
    phi = model.first(x).tanh().detach().numpy()
    w, b = np.exp(method.log_weights.detach().numpy()), method.bias.item()
    same: list[float] = []
    different: list[float] = []
    for i in range(9):
        for j in range(9):
            if i != j:
                p = expit(b - (w * np.abs(phi[i] - phi[j])).sum())
                (same if y[i] == y[j] else different).append(-np.log(p) if y[i] == y[j] else -np.log1p(-p))
    wanted = 0.5 * np.mean(same) + 0.5 * np.mean(different)
    assert method.loss(Labeled(x, y))["pairs"].item() == pytest.approx(wanted, rel=1e-10)


def test_the_loss_of_matching_is_that_of_drawing_a_neighbor_of_the_class() -> None:
    torch.manual_seed(0)
    model = ToyClassifier(features=3, classes=3).double()
    method = Siamese(model)
    with torch.no_grad():
        method.log_weights.normal_()
    x, y = torch.randn(8, 3, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 1, 0, 3])  # 2 and 3 have no partner
    phi, w = model.first(x).tanh().detach().numpy(), np.exp(method.log_weights.detach().numpy())
    nats = []
    for i in range(8):
        near = {j: np.exp(-(w * np.abs(phi[i] - phi[j])).sum()) for j in range(8) if j != i}
        own = sum(value for j, value in near.items() if y[j] == y[i])
        nats += [-np.log(own / sum(near.values()))] if own else []
    assert len(nats) == 6
    assert method.loss(Labeled(x, y))["matching"].item() == pytest.approx(np.mean(nats), rel=1e-10)


def test_a_query_gets_the_class_of_the_nearest_example() -> None:
    torch.manual_seed(0)
    method = Siamese(ToyClassifier(features=2, classes=2))
    examples = torch.tensor([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]])
    order = torch.tensor([2, 0, 1])
    assert method.one_shot(examples[order] + 0.01, examples).tolist() == order.tolist()
    assert methods_of(method) == ("encode",)


def test_a_batch_of_one_class_or_without_a_pair_of_one_class_has_a_finite_loss() -> None:
    model, batch = ToyClassifier.example()
    for objective in ("matching", "verification"):
        method = Siamese(model, objective=objective)
        for y in (torch.zeros(4, dtype=torch.long), torch.arange(4), torch.zeros(1, dtype=torch.long)):
            (loss,) = method.loss(Labeled(batch.x[: len(y)], y)).values()
            loss.backward()
            assert loss.isfinite()
            assert all(p.grad.isfinite().all() for p in method.parameters() if p.grad is not None)


@pytest.mark.slow
def test_classes_that_it_has_never_seen_are_told_apart_by_what_tells_the_others_apart() -> None:
    """Classes differ in four features among twelve that are noise: pixels cannot know which, the twins have learned."""
    random = torch.Generator().manual_seed(0)

    def drawn(classes: int, each: int) -> tuple[torch.Tensor, torch.Tensor]:
        centers = torch.cat([2 * torch.randn(classes, 4, generator=random), torch.zeros(classes, 12)], 1)
        y = torch.arange(classes).repeat_interleave(each)
        noise = torch.randn(classes * each, 16, generator=random) * torch.tensor([0.3] * 4 + [2.0] * 12)
        return centers[y] + noise, y

    torch.manual_seed(0)
    method = Siamese(MLP(features=16, classes=40, hidden=(64, 16)))
    dc.fit(method, dc.data.of(*drawn(40, 30)), steps=300, lr=3e-3, seed=0, quiet=True, evaluate=False)
    method.eval()
    x, y = drawn(20, 11)
    first = torch.arange(0, 220, 11)
    rest = torch.ones(220, dtype=torch.bool).index_fill(0, first, False)
    ours = (method.one_shot(x[rest], x[first]) == y[rest]).double().mean()
    pixels = (torch.cdist(x[rest], x[first]).argmin(1) == y[rest]).double().mean()
    best = (torch.cdist(x[rest, :4], x[first, :4]).argmin(1) == y[rest]).double().mean()
    assert pixels < 0.5 < 0.75 * best < ours
