"""A plain module with a loss is a model: what it learns is what a loop of torch's own learns."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.core import Batch, DataError, Labeled, PlainModule, UsageError, describe, methods_of
from deepcanon.core.roles import Predicts


def net(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, outputs))


X = torch.randn(20, 2, generator=torch.Generator().manual_seed(1))
CLASSES = torch.arange(20) % 3


def test_the_loss_is_that_of_the_output_and_the_labels() -> None:
    module = net()
    model = PlainModule(module, nn.CrossEntropyLoss())
    value = model.loss(Labeled(X, CLASSES))
    assert torch.equal(value["CrossEntropyLoss"], functional.cross_entropy(module(X), CLASSES))
    like_itself = PlainModule(nn.Linear(2, 2), functional.l1_loss)
    assert torch.equal(like_itself.loss(Batch(X))["l1_loss"], functional.l1_loss(like_itself(X), X))


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), functional.cross_entropy])
def test_logits_are_predicted_as_classes(loss: Any) -> None:
    model = PlainModule(net(), loss)
    assert isinstance(model, Predicts)
    mean = model.predict(X, how="mean")
    assert torch.allclose(mean, model(X).softmax(1))
    assert torch.equal(model.predict(X), mean.argmax(1))
    drawn = torch.stack(
        [model.predict(X, how="sample", generator=torch.Generator().manual_seed(i)) for i in range(900)]
    )
    shares = functional.one_hot(drawn, 3).double().mean(0)
    assert (shares - mean).abs().max() < 5 * (0.25 / 900) ** 0.5


def test_log_probabilities_and_means_are_predicted_as_what_they_are() -> None:
    logs = nn.Sequential(net(), nn.LogSoftmax(1))
    assert torch.allclose(PlainModule(logs, nn.NLLLoss()).predict(X, how="mean"), logs(X).exp())
    means = PlainModule(net(1), nn.MSELoss())
    assert torch.equal(means.predict(X), means(X))
    with pytest.raises(UsageError, match="no sample"):
        means.predict(X, how="sample")


def test_of_any_other_loss_nothing_is_known_so_nothing_is_predicted() -> None:
    model = PlainModule(net(), lambda output, y: functional.cross_entropy(output, y))
    assert methods_of(model) == ()
    assert not isinstance(model, Predicts)
    assert describe(model) == {"model": "PlainModule", "arguments": {"module": "Sequential", "loss": "function"}}


def test_a_copy_predicts_by_its_own_weights() -> None:
    model = PlainModule(net(), nn.CrossEntropyLoss())
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for weight in twin.parameters():
            weight.zero_()
    assert torch.allclose(twin.predict(X, how="mean"), torch.full((20, 3), 1 / 3))
    assert not torch.allclose(model.predict(X, how="mean"), torch.full((20, 3), 1 / 3))


WRONG: dict[str, tuple[Any, Any, str]] = {
    "a class in place of a loss": (net(), nn.CrossEntropyLoss, "loss is a function of output and target"),
    "a sum": (net(), nn.CrossEntropyLoss(reduction="sum"), "mean over the examples, got the sum"),
    "no module": ("net", nn.CrossEntropyLoss(), "got str"),
    "a model": (PlainModule.example()[0], nn.CrossEntropyLoss(), "without a loss of its own, got PlainModule"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_module_with_a_loss_is_refused(case: str) -> None:
    module, loss, sentence = WRONG[case]
    with pytest.raises(UsageError, match=sentence):
        PlainModule(module, loss)


def test_losses_that_are_no_mean_over_these_examples_are_refused() -> None:
    def each(output: Tensor, y: Tensor) -> Tensor:
        return output[:, 0] - y

    with pytest.raises(DataError, match=r"must be one number.*got the shape \(20,\)"):
        PlainModule(net(), each).loss(Labeled(X, CLASSES))
    flat = nn.Sequential(net(1), nn.Flatten(0))  # (20,), which torch would stretch to (20, 20)
    with pytest.raises(DataError, match=r"gives \(20,\) where the targets are \(20, 1\)"):
        PlainModule(flat, nn.MSELoss()).loss(Labeled(X, torch.zeros(20, 1)))
