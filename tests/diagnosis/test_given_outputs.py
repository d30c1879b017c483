from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.diagnosis.admission import admit
from deepcanon.diagnosis.given_outputs import Unheard, loss_of_outputs
from tests.diagnosis.checks.plain import CLASSES, CROSS_ENTROPY, X, adam, net


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> None:
    optimizer.zero_grad()
    loss: Tensor = 2 * functional.cross_entropy(model(batch.x), batch.y)
    loss.backward()
    optimizer.step()


def test_the_loss_of_outputs_is_the_same_by_a_criterion_and_by_a_step() -> None:
    model = net()
    by_loss = admit(model, (X, CLASSES), loss=CROSS_ENTROPY, optimizer=adam(model))
    by_step = admit(model, (X, CLASSES), step=_step, optimizer=adam(model))
    outputs = torch.randn(32, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    batch = by_loss.batch(32)
    one, other = (loss_of_outputs(patient, batch)(outputs) for patient in (by_loss, by_step))
    assert torch.allclose(2 * one, other)
    (slope,) = torch.autograd.grad(other, outputs)
    assert float(slope.norm()) > 0
    with pytest.raises(Unheard, match="no outputs of this form"):
        loss_of_outputs(by_step, batch)(torch.zeros(32, 7))


def test_the_constant_answer_of_a_step_and_of_a_loss_of_two_terms_is_known() -> None:
    model = net()
    shares = torch.bincount(CLASSES).double() / len(CLASSES)
    entropy = float(-(shares * shares.log()).sum())
    assert admit(model, (X, CLASSES), step=_step, optimizer=adam(model)).baseline == pytest.approx(
        2 * entropy, rel=0.02
    )
    smoothed = admit("cnn", "digits")  # whose loss has a term for the smoothed labels
    assert len(smoothed.ours.loss(smoothed.batch(4))) == 2  # type: ignore[union-attr]
    assert smoothed.baseline == pytest.approx(2.303, rel=0.01)
