"""Pretraining comes first and uses no label; linear layers then span the principal components, and few labels gain."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

import deepcanon as dc
from deepcanon.core import Descend, Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.laws.play import play
from deepcanon.losses import nt_xent
from deepcanon.methods.pretrained import Pretrained
from deepcanon.models.convolutional.cnn import CNN


def test_the_first_share_is_without_labels_and_the_rest_with_them() -> None:
    method, batch = Pretrained.example()
    first, second = method.turns()
    assert isinstance(first, Descend)
    assert isinstance(second, Descend)
    assert (first.share, second.share) == ((0.0, 0.5), (0.5, 1.0))
    last = {id(parameter) for parameter in method.model.last.parameters()}  # type: ignore[union-attr]
    assert not last & {id(parameter) for parameter in first.parameters}
    assert {id(p) for p in method.model.parameters()} == {id(p) for p in second.parameters}
    frozen = Pretrained(ToyClassifier(2, 2), features=2, backbone="frozen")
    _, only = frozen.turns()
    assert isinstance(only, Descend)
    assert {id(p) for p in only.parameters} == {id(p) for p in frozen.model.last.parameters()}  # type: ignore[union-attr]
    assert isinstance(batch, Labeled)


def test_the_losses_without_labels_are_the_formulas() -> None:
    torch.manual_seed(0)
    x = torch.randn(8, 3, dtype=torch.float64)
    batch = Labeled(x, torch.zeros(8, dtype=torch.long))
    model = ToyClassifier(3, 2).double()
    for task in ("reconstruction", "contrastive"):
        method = Pretrained(model, features=3, task=task, strength=0.0)
        outputs = method.pretext_head(model.first(x).tanh())
        wanted = (outputs - x).square().mean() if task == "reconstruction" else nt_xent(outputs, outputs, 0.2)
        torch.testing.assert_close(method.pretext(batch)[task], wanted)


class Linear(ToyClassifier):
    """Two linear features."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        self.first = torch.nn.Linear(features, 2, bias=False)
        self.last = torch.nn.Linear(2, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.last(self.first(x))
        return logits


@pytest.mark.slow
def test_linear_layers_span_the_principal_components() -> None:
    torch.manual_seed(0)
    basis = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64)).Q
    x = torch.randn(500, 6, dtype=torch.float64) * torch.tensor([3.0, 2.0, 0.3, 0.2, 0.1, 0.1]) @ basis.T
    x = (x - x.mean(0)).double()
    method = Pretrained(Linear(6, 2).double(), features=6)
    # The decoder is linear, too, where its hidden layer is the identity.
    method.pretext_head = torch.nn.Sequential(torch.nn.Linear(2, 6, dtype=torch.float64))
    pretraining = method.turns()[0]
    assert isinstance(pretraining, Descend)
    optimizer = torch.optim.LBFGS(
        pretraining.parameters,
        max_iter=500,
        tolerance_grad=1e-12,
        tolerance_change=1e-15,
        line_search_fn="strong_wolfe",
    )
    batch = Labeled(x, torch.zeros(500, dtype=torch.long))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = method.pretext(batch)["reconstruction"]
        loss.backward()
        return loss

    optimizer.step(closure)
    components = torch.linalg.svd(x, full_matrices=False).Vh[:2].numpy()
    learned = method.model.first.weight.detach().numpy()  # type: ignore[union-attr, operator]
    assert subspace_angles(components.T, learned.T).max() < 1e-3


def test_a_pretraining_step_leaves_the_last_layer_and_a_frozen_backbone_stays() -> None:
    method = Pretrained(ToyClassifier(2, 2), features=2, backbone="frozen")
    batch = ToyClassifier.example()[1]
    first, second = method.turns()
    before = {name: value.clone() for name, value in method.model.state_dict().items()}
    play(method, first, batch)
    middle = {name: value.clone() for name, value in method.model.state_dict().items()}
    play(method, second, batch)
    after = method.model.state_dict()
    assert [name for name in before if not torch.equal(before[name], middle[name])] == ["first.weight", "first.bias"]
    assert [name for name in before if not torch.equal(middle[name], after[name])] == ["last.weight", "last.bias"]


@pytest.mark.slow
def test_few_labels_gain_by_pretraining() -> None:
    """Paired seeds: the same start, the same steps with labels."""
    gains = []
    for seed in (100, 101, 102):
        few = dc.load_data(f"digits:labels=40,seed={seed}")
        accuracy = []
        for share, steps in ((0.0, 200), (0.5, 400)):
            torch.manual_seed(seed)
            inner = CNN(channels=1, height=8, width=8, classes=10)
            method = Pretrained(inner, features=64, share=share, task="contrastive")
            result = dc.fit(
                method, few, steps=steps, lr=2e-3, optimizer="adam", seed=seed, quiet=True, keep_weights="last"
            )
            accuracy.append(result.test["accuracy"])
        gains.append(accuracy[1] - accuracy[0])
    assert np.mean(gains) > 0


def test_wrong_arguments_and_models_are_refused() -> None:
    for arguments, words in (
        ({"share": 1.0}, "share is a share of the training"),
        ({"task": "nothing"}, "task must be one of reconstruction, contrastive"),
        ({"backbone": "cold"}, "backbone must be one of frozen, fine-tuned"),
    ):
        with pytest.raises(UsageError, match=words):
            Pretrained(ToyClassifier(2, 2), features=2, **arguments)
