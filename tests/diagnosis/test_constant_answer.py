from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from deepcanon.data import of
from deepcanon.diagnosis.admission import admit


def test_the_constant_answer_of_an_autoencoder_is_the_variance_of_its_data() -> None:
    data = of("digits")
    variance = float(data.train.x.double().flatten(1).var(0, correction=0).sum())
    assert admit("autoencoder", data).baseline == pytest.approx(variance, rel=1e-4)
    assert admit("vae", data).baseline is None  # its loss is another one


def test_the_constant_answer_for_tokens_is_the_entropy_of_their_shares_on_either_axis() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.randint(7, (200, 9), generator=random)
    y = torch.multinomial(torch.tensor([0.7, 0.1, 0.1, 0.1]), 200 * 9, True, generator=random).view(200, 9)
    shares = torch.bincount(y.flatten()) / y.numel()
    entropy = float(-(shares * shares.log()).sum())
    net = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 4))
    for loss, targets in (
        (lambda output, y: cross_entropy(output.transpose(1, 2), y), y),
        (lambda output, y: cross_entropy(output.reshape(-1, 4), y.reshape(-1)), torch.where(x == 0, -100, y)),
    ):
        patient = admit(net, (x, targets), loss=loss, optimizer="adam")
        assert patient.baseline == pytest.approx(entropy, rel=0.01)
