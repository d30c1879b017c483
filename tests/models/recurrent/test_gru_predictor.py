"""The GRU classifier: torch's layers or the paper's, and a token that is remembered over many steps."""

from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.data.load import load_data
from deepcanon.models.recurrent.gru_predictor import GRUPredictor
from deepcanon.nn.bidirectional import last_output
from deepcanon.nn.gru import ResetBeforeGRU


def test_the_paper_s_form_predicts_from_its_last_state() -> None:
    """Layers of both forms are held to torch and to their equations in tests/nn, and predictors to torch's in one."""
    torch.manual_seed(0)
    model = GRUPredictor(features=3, classes=4, units=5, layers=2, reset="before").double()
    assert isinstance(model.recurrent, ResetBeforeGRU)
    x, lengths = torch.randn(4, 6, 3, dtype=torch.float64), torch.tensor([6, 1, 4, 3])
    wanted = model.head(last_output(model.recurrent(x.transpose(0, 1))[0], lengths))
    torch.testing.assert_close(model(x, lengths), wanted, rtol=0, atol=1e-12)
    both: Any = GRUPredictor(features=3, classes=4, units=5, reset="before", bidirectional=True)
    assert isinstance(both.recurrent.backward_layers[0], ResetBeforeGRU)


@pytest.mark.slow
def test_the_first_token_is_recalled_after_fifty_steps() -> None:
    torch.manual_seed(0)
    model = GRUPredictor(vocab=17, classes=8, units=32, embedding=16)
    result = dc.fit(model, load_data("recall"), quiet=True, steps=400)
    assert result.test["accuracy"] > 0.99  # one in eight at random


def test_mistakes_raise_an_error_of_one_sentence() -> None:
    with pytest.raises(UsageError, match="reset must be one of after, before"):
        GRUPredictor(features=3, classes=2, reset="never")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="memory must be at least 2"):
        GRUPredictor(features=3, classes=2, memory=1)
