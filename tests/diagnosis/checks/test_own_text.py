from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from deepcanon.core import Sequences
from deepcanon.data import Dataset
from deepcanon.diagnosis.families.generated_text import repeated
from deepcanon.models import GRU
from tests.diagnosis.checks.planted import causes, report_of


@pytest.mark.slow
def test_a_model_that_copies_its_input_repeats_itself() -> None:
    def loss(self: Any, batch: Any) -> dict[str, Tensor]:
        logits = self.logits(self.outputs(batch.x))
        return {"nll": functional.cross_entropy(logits.flatten(0, 1), batch.x.flatten())}

    text = torch.randint(6, (200, 41), generator=torch.Generator().manual_seed(0))
    data = Dataset("letters", "text", Sequences(text, torch.full((200,), 41)), sizes={"vocab": 6}, shape=(41,))
    for methods, wanted in (({"loss": loss}, ["repetition"]), ({}, [])):
        torch.manual_seed(0)
        model = GRU(vocab=6, embedding=8, units=32)
        report = report_of("own_text", model, data, methods=methods, steps=60, lr=0.03, batch_size=32)
        assert causes(report) == wanted


@pytest.mark.slow
def test_a_sampler_that_forgets_its_state_is_named() -> None:
    def generate(self: Any, prompt: Tensor, steps: int, **options: Any) -> Tensor:
        return torch.cat([prompt, torch.randint(6, (len(prompt), steps))], 1)

    text = torch.arange(200).unsqueeze(1) + torch.arange(41)  # each token is the last one plus 1, with rare mistakes
    wrong = torch.rand(text.shape, generator=torch.Generator().manual_seed(0)) < 0.01
    text = torch.where(wrong, 0, text % 6)
    data = Dataset("counting", "text", Sequences(text, torch.full((200,), 41)), sizes={"vocab": 6}, shape=(41,))
    for methods, wanted in (({"generate": generate}, ["sampler and likelihood disagree"]), ({}, [])):
        torch.manual_seed(0)
        model = GRU(vocab=6, embedding=8, units=32)
        report = report_of("own_text", model, data, methods=methods, steps=100, lr=0.03, batch_size=32)
        assert causes(report) == wanted


def test_groups_of_tokens_are_counted_in_each_row() -> None:
    assert repeated(torch.zeros(2, 8, dtype=torch.long)) == pytest.approx(0.8)
    assert repeated(torch.arange(16).reshape(2, 8)) == 0
