from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.diagnosis.checks.plain import TARGETS, X, causes, net


def test_targets_of_another_shape_are_seen_unless_the_loss_brings_them_together() -> None:
    flat = (X, TARGETS.squeeze(1))
    assert causes("broadcast_targets", net(1), flat, loss=nn.MSELoss()) == ["wrong broadcast of targets"]
    assert causes("broadcast_targets", nn.Sequential(net(1), nn.Flatten(0)), (X, TARGETS), loss=nn.MSELoss()) == [
        "wrong broadcast of targets"
    ]
    squeezed = lambda output, y: (output.squeeze(1) - y).square().mean()  # noqa: E731
    assert causes("broadcast_targets", net(1), flat, loss=squeezed) == []
    assert causes("broadcast_targets", net(1), (X, TARGETS), loss=nn.MSELoss()) == []


class Tagger(nn.Sequential):
    """A class for each of twelve tokens."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(nn.Embedding(20, 8), nn.Linear(8, 5))


def test_classes_of_sequences_that_are_reshaped_in_place_of_transposed_are_seen() -> None:
    tokens = torch.randint(20, (300, 12), generator=torch.Generator().manual_seed(0))
    data = (tokens, tokens % 5)
    some = torch.where(tokens < 4, -100, tokens % 5)
    viewed = lambda output, y: cross_entropy(output.view(len(output), 5, -1), y)  # noqa: E731
    transposed = lambda output, y: cross_entropy(output.transpose(1, 2), y)  # noqa: E731
    flattened = lambda output, y: cross_entropy(output.reshape(-1, 5), y.reshape(-1))  # noqa: E731
    shifted = lambda output, y: cross_entropy(output[:, :-1].transpose(1, 2), y[:, 1:])  # noqa: E731
    smoothed = nn.CrossEntropyLoss(label_smoothing=0.1, weight=torch.arange(1.0, 6))
    whole = lambda output, y: output.logsumexp((1, 2)).mean() - output.gather(2, y.unsqueeze(2)).mean()  # noqa: E731
    assert causes("broadcast_targets", Tagger(), data, loss=viewed) == ["outputs reshaped over the wrong axis"]
    for sound in (transposed, flattened, shifted, lambda output, y: smoothed(output.transpose(1, 2), y), whole):
        assert causes("broadcast_targets", Tagger(), data, loss=sound) == []
    assert causes("broadcast_targets", Tagger(), (tokens, some), loss=transposed) == []
