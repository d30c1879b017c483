from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.nn.masked import MaskedLinear
from tests.diagnosis.checks.planted import causes, parent, report_of


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("made:hidden=32", "digits:binary"),
        ("nade", "digits:binary"),
        ("pixelcnn", "digits:levels"),
        ("gpt", "text"),
        ("gru", "text"),
    ],
)
def test_models_of_the_catalogue_know_no_later_value(model: str, data: str) -> None:
    report = report_of("causal_order", model, data)
    assert causes(report) == []
    assert report.passed["causal_order"]["positions"] > 4


def test_open_masks_leak() -> None:
    from deepcanon.data import load_data
    from deepcanon.models import MADE

    model = MADE(features=64, hidden=(32,))
    for layer in model.modules():
        if isinstance(layer, MaskedLinear):
            layer.mask.fill_(1)
    assert causes(report_of("causal_order", model, load_data("digits:binary"))) == ["causality leak"]


def test_an_output_that_knows_the_next_token_leaks() -> None:
    def outputs(self: Any, tokens: Tensor) -> Tensor:
        found: Tensor = parent(self).outputs(self, tokens)
        return found + 1e-3 * found.roll(-1, 1)

    report = report_of("causal_order", "gru", "text", methods={"outputs": outputs})
    assert causes(report) == ["causality leak"]
    assert "knows position" in next(iter(report)).where


class Reader(nn.Module):
    """Logits of the next token by a recurrent network, which may read in both directions."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(8, 8)
        self.gru = nn.GRU(8, 8, batch_first=True, bidirectional=both)
        self.head = nn.Linear(16 if both else 8, 8)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.gru(self.tokens(x))[0])
        return logits


def token_loss(logits: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), y.flatten())


def test_a_plain_module_is_held_to_the_order_of_its_labels() -> None:
    text = torch.randint(8, (64, 13), generator=torch.Generator().manual_seed(0))
    shifted, same = (text[:, :-1], text[:, 1:]), (text[:, 1:], text[:, 1:].clone())
    tags = (text[:, 1:], (text[:, 1:] > 3).long())
    for both, data, wanted in (
        (False, shifted, []),
        (True, shifted, ["causality leak"]),
        (False, same, ["causality leak"]),
        (True, same, []),  # it may fill in what is masked
        (True, tags, []),
    ):
        report = report_of("causal_order", Reader(both), data, loss=token_loss, optimizer="adam")
        assert causes(report) == wanted


def inner_shift(logits: Tensor, y: Tensor) -> Tensor:
    """Labels are the tokens themselves, and the loss shifts them."""
    return token_loss(logits[:, :-1], y[:, 1:])


def test_a_loss_that_shifts_the_labels_itself_predicts_the_next_token() -> None:
    text = torch.randint(8, (64, 13), generator=torch.Generator().manual_seed(0))
    for both, wanted in ((False, []), (True, ["causality leak"])):
        report = report_of("causal_order", Reader(both), (text, text.clone()), loss=inner_shift, optimizer="adam")
        assert causes(report) == wanted


def test_a_model_whose_loss_forgets_to_shift_is_named() -> None:
    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        return {"nll": token_loss(self.logits(self.outputs(batch.x)), batch.x)}

    report = report_of("causal_order", "lstm", "text", methods={"loss": loss})
    assert causes(report) == ["causality leak"]
    assert "shift" in next(iter(report)).advice


class ScoresFirst(Reader):
    """As ``cross_entropy`` takes sequences: scores before positions."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).transpose(1, 2)


class Flat(Reader):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).flatten(0, 1)


@pytest.mark.parametrize("both", [False, True])
def test_outputs_may_have_scores_first_or_be_flat(both: bool) -> None:
    text = torch.randint(8, (64, 13), generator=torch.Generator().manual_seed(0))
    data, wanted = (text[:, :-1], text[:, 1:]), ["causality leak"] if both else []
    assert causes(report_of("causal_order", ScoresFirst(both), data, loss=nn.CrossEntropyLoss())) == wanted
    flat = report_of("causal_order", Flat(both), data, loss=lambda o, y: functional.cross_entropy(o, y.flatten()))
    assert causes(flat) == wanted


@pytest.mark.parametrize("both", [False, True])
def test_a_series_is_held_to_its_order(both: bool) -> None:
    series = torch.randn(32, 13, 1, generator=torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Conv1d(12, 12, 1), nn.Linear(1, 1)) if both else nn.Sequential(nn.Linear(1, 1))
    report = report_of("causal_order", model, (series[:, :-1], series[:, 1:]), loss=nn.MSELoss())
    assert causes(report) == (["causality leak"] if both else [])
