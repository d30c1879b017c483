"""The loss of several tasks is their weighted sum, and the backbone that they share gets the sum of their gradients."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss
from torch import Generator, Tensor
from torch.nn.functional import cross_entropy

import deepcanon as dc
from deepcanon.core import Labeled, UsageError
from deepcanon.core.toy import Toy
from deepcanon.methods.multitask import Multitask
from deepcanon.models.feedforward.mlp import MLP

GROUPS = (0, 1, 0, 2)


def net() -> tuple[MLP, Labeled]:
    torch.manual_seed(0)
    model = MLP(features=3, classes=4, hidden=(6,), activation="tanh").double()
    return model, Labeled(torch.randn(10, 3, dtype=torch.float64), torch.arange(10) % 4)


def test_the_loss_is_the_weighted_sum_of_the_tasks() -> None:
    model, batch = net()
    method = Multitask(model, features=3, reconstruction=0.7, groups=GROUPS, grouping=0.3).double()
    terms = {name: value.item() for name, value in method.loss(batch).items()}
    hidden = model.net[:2](batch.x).detach()
    reconstructed = method.heads["reconstruction"](hidden).detach().numpy()
    shares = method.heads["grouping"](hidden).softmax(-1).detach().numpy()
    groups = np.array(GROUPS)[batch.y.numpy()]
    assert terms["nll"] == model.loss(batch)["nll"].item()
    assert terms["reconstruction"] == pytest.approx(0.7 * np.square(reconstructed - batch.x.numpy()).mean())
    assert terms["grouping"] == pytest.approx(0.3 * log_loss(groups, shares, labels=[0, 1, 2]))


def test_the_shared_backbone_gets_the_gradient_of_all_and_each_head_its_own() -> None:
    model, batch = net()
    method = Multitask(model, features=3, reconstruction=0.7, groups=GROUPS, grouping=0.3).double()
    backbone, own = model.get_parameter("net.0.weight"), model.get_parameter("net.2.weight")
    further = method.heads["reconstruction"].get_parameter("weight")
    total = torch.stack(list(method.loss(batch).values())).sum()
    together = torch.autograd.grad(total, [backbone, own, further])

    hidden = model.net[:2](batch.x)
    losses = (
        cross_entropy(model.net[2](hidden), batch.y),
        0.7 * (method.heads["reconstruction"](hidden) - batch.x).square().mean(),
        0.3 * cross_entropy(method.heads["grouping"](hidden), torch.tensor(GROUPS)[batch.y]),
    )
    each = [torch.autograd.grad(loss, backbone, retain_graph=True)[0] for loss in losses]
    torch.testing.assert_close(together[0], each[0] + each[1] + each[2], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(together[1], torch.autograd.grad(losses[0], own, retain_graph=True)[0])
    torch.testing.assert_close(together[2], torch.autograd.grad(losses[1], further)[0])


def test_without_further_tasks_the_run_is_the_plain_one_bit_for_bit() -> None:
    ends = []
    for weight in (None, 0.0, 0.5):
        torch.manual_seed(1)
        model = MLP(features=2, classes=2, hidden=(8,), dropout=0.1)
        method = model if weight is None else Multitask(model, features=2, reconstruction=weight)
        dc.fit(method, dc.load_data("moons"), steps=6, batch_size=32, quiet=True)
        ends.append(copy.deepcopy(model.state_dict()))
    plain, idle, shared = ends
    assert all(torch.equal(plain[name], idle[name]) for name in plain)
    assert not torch.equal(plain["net.0.weight"], shared["net.0.weight"])


def test_all_tasks_are_learned_and_come_back_from_a_run(tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = dc.load_data("digits")
    model = MLP(features=64, classes=10, hidden=(32,))
    method = Multitask(model, features=64, groups=tuple(digit % 2 for digit in range(10)))
    before = dc.evaluate(method, data.split("test"))
    result = dc.fit(method, data, steps=60, lr=0.005, quiet=True, out=tmp_path)
    assert all(result.test[task] < 0.7 * before[task] for task in ("nll", "reconstruction", "grouping"))
    again = dc.load(tmp_path)
    assert dc.evaluate(again, data.split("test")) == pytest.approx(result.test)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_few_labels_the_task_of_reconstruction_helps(seed: int) -> None:
    """Thirty features that two causes explain, twelve noisy labels: reconstruction finds the causes."""

    def drawn(count: int, seed: int) -> tuple[Tensor, Tensor]:
        random = Generator().manual_seed(seed)
        causes, ways = torch.randn(count, 2, generator=random), torch.randn(2, 30, generator=Generator().manual_seed(9))
        return causes @ ways + 0.5 * torch.randn(count, 30, generator=random), causes[:, :1]

    (x, y), (new, truth) = drawn(12, seed), drawn(1000, 100 + seed)
    noisy = y + 0.5 * torch.randn(12, 1, generator=Generator().manual_seed(seed))
    errors = []
    for weight in (0.0, 10.0):
        torch.manual_seed(seed)
        model = Multitask(
            MLP(features=30, targets=1, hidden=(2,), activation="identity"), features=30, reconstruction=weight
        )
        dc.fit(model, dc.from_tensors(x, noisy), quiet=True, lr=1e-2, batch_size=12, epochs=300)
        errors.append((model.predict(new) - truth).square().mean().item())  # type: ignore[operator]
    alone, shared = errors
    assert shared < 0.7 * alone


def test_wrong_arguments_are_refused() -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"reconstruction": -1.0}, "reconstruction must be 0 or more"),
        ({"groups": (0, 1)}, "the group of each of 4 classes"),
        ({"groups": (0, 0, 0, 0)}, "of at least two groups"),
        ({"features": 0}, "features must be at least 1"),
    )
    for arguments, words in wrong:
        with pytest.raises(UsageError, match=words):
            Multitask(net()[0], **{"features": 3, **arguments})
    with pytest.raises(UsageError, match="wraps a model with predict; Toy has no predict"):
        Multitask(Toy(2), features=2)
