"""The supervised deep belief network: torch's own layers give its logits, and layers learn without labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import DataError, Labeled, SemiBatch, UsageError
from deepcanon.data import load_data
from deepcanon.laws.energy import gradient_by_hand_is_that_of_the_loss
from deepcanon.models.energy.dbn_classifier import DBNClassifier


def plain(model: DBNClassifier) -> nn.Sequential:
    """The same network of torch's layers, with the same weights."""
    parts: list[nn.Module] = []
    layers: Any = model.layers
    for layer in layers:
        linear = nn.Linear(layer.width, layer.units).double()
        linear.load_state_dict({"weight": layer.weight.T, "bias": layer.hidden_bias})
        parts += [linear, nn.Sigmoid()]
    return nn.Sequential(*parts, model.head)


def batch_of(rows: int = 40, features: int = 6) -> Labeled:
    x = torch.rand(rows, features, generator=torch.Generator().manual_seed(3)).round().double()
    return Labeled(x, (x.sum(1) > features / 2).long())


def stirred(**arguments: Any) -> DBNClassifier:
    torch.manual_seed(0)
    model = DBNClassifier(6, 2, (5, 4), chains=20, **arguments).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def test_loss_and_gradient_are_those_of_torchs_layers() -> None:
    model, batch = stirred(), batch_of()
    peer = plain(model)
    torch.testing.assert_close(model(batch.x), peer(batch.x))
    loss = nn.functional.cross_entropy(peer(batch.x), batch.y)
    torch.testing.assert_close(model.loss(batch)["nll"], loss)
    found = torch.autograd.grad(model.loss(batch)["nll"], [model._layer(0).weight, model._layer(1).hidden_bias])
    first, second = peer[0].weight, peer[2].bias
    assert isinstance(first, Tensor)
    assert isinstance(second, Tensor)
    wanted = torch.autograd.grad(loss, [first, second])
    torch.testing.assert_close(found[0], wanted[0].T)
    torch.testing.assert_close(found[1], wanted[1])


def test_each_layer_descends_its_contrastive_divergence() -> None:
    outcome = gradient_by_hand_is_that_of_the_loss(stirred(), batch_of())
    assert outcome is not None
    assert outcome.holds
    assert "layer_1, layer_2" in outcome.detail


def trained(x: Tensor, y: Tensor, share: float) -> DBNClassifier:
    torch.manual_seed(0)
    model = DBNClassifier(6, 2, (5, 4), chains=20, pretraining=share)
    dc.fit(model, (x, y), quiet=True, epochs=4, batch_size=10)
    return model


def test_pre_training_reads_no_labels_and_fine_tuning_no_visible_biases() -> None:
    batch = batch_of()
    x, y = batch.x.float(), batch.y
    one, other = (trained(x, labels, 0.999) for labels in (y, 1 - y))
    for layer in range(2):
        for name in ("weight", "visible_bias", "hidden_bias"):
            torch.testing.assert_close(getattr(one._layer(layer), name), getattr(other._layer(layer), name))
    assert one.head.weight.detach().abs().max() < 1e-2  # that of the last step, which is the first with labels
    tuned = trained(x, y, 0.0)
    assert tuned._layer(1).visible_bias.detach().abs().max() == 0
    assert tuned.head.weight.detach().abs().max() > 1e-4


def test_of_few_labels_the_layers_learn_from_the_examples_without() -> None:
    batch, model = batch_of(), stirred().eval()  # so that the chains stay where they are
    few = SemiBatch(batch.x[:3], batch.y[:3], batch.x[3:])
    losses = []
    for each in (few, Labeled(batch.x[3:], batch.y[3:])):
        torch.manual_seed(1)
        losses.append(model.layer_loss(0, each)["layer_1"].item())
    assert losses[0] == losses[1]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["digits:binary", "digits:binary:labels=100"])
def test_pre_trained_layers_classify_better_than_random_ones(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DBNClassifier, "FINE_TUNING_RATE", 5e-3)  # a larger one ruins three random layers
    data = load_data(form)
    accuracy: dict[float, float] = {}
    for pretraining in (0.0, 0.5):
        torch.manual_seed(0)
        model = DBNClassifier(64, 10, (100, 100, 100), pretraining=pretraining)
        dc.fit(model, data, quiet=True, epochs=60, evaluate=False)
        accuracy[pretraining] = model.metrics(data.split("test"))["accuracy"].item()
    assert accuracy[0.5] > accuracy[0.0] + 0.1, accuracy


def test_what_is_no_such_network_is_refused() -> None:
    with pytest.raises(UsageError, match="pretraining is a share"):
        DBNClassifier(4, 2, pretraining=1)
    with pytest.raises(UsageError, match="has hidden layers"):
        DBNClassifier(4, 2, hidden=())
    with pytest.raises(DataError, match="models zeros and ones"):
        dc.fit(DBNClassifier(4, 2), (torch.full((8, 4), 0.5), torch.arange(8) % 2), quiet=True)
