"""The GRU language model is torch's, or the paper's, between an embedding and a softmax."""

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.models.recurrent.gru import GRU
from deepcanon.nn.gru import ResetBeforeGRU


def test_logits_are_those_of_torchs_gru() -> None:
    torch.manual_seed(0)
    ours = GRU(vocab=7, embedding=4, units=5, layers=3, dropout=0.3).double().eval()
    theirs = nn.GRU(4, 5, 3, batch_first=True).double()
    theirs.load_state_dict(ours.recurrent.state_dict())
    x = torch.randint(7, (6, 9), generator=torch.Generator().manual_seed(0))
    wanted = ours.head(theirs(ours.embedding(x))[0])
    torch.testing.assert_close(ours(x), wanted, rtol=0, atol=1e-12)
    nats = -wanted[:, :-1].log_softmax(-1).gather(2, x[:, 1:, None]).squeeze(2)
    torch.testing.assert_close(ours.log_prob(x), -nats.sum(1), rtol=0, atol=1e-12)


def test_the_paper_s_form_has_layers_of_its_own() -> None:
    torch.manual_seed(0)
    model = GRU(vocab=7, embedding=4, units=5, layers=2, reset="before").double()
    assert isinstance(model.recurrent, ResetBeforeGRU)  # held to its equations in tests/nn/test_gru.py
    x = torch.randint(7, (3, 6), generator=torch.Generator().manual_seed(0))
    states, _ = model.recurrent(model.embedding(x.T))
    torch.testing.assert_close(model(x), model.head(states).transpose(0, 1), rtol=0, atol=1e-12)


def test_the_number_of_parameters_is_torchs() -> None:
    model = GRU(vocab=65, embedding=128, units=256, layers=2)
    assert sum(p.numel() for p in model.recurrent.parameters()) == 691_200


def test_mistakes_raise_an_error_of_one_sentence() -> None:
    with pytest.raises(UsageError, match="reset must be one of after, before"):
        GRU(vocab=5, reset="never")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="memory must be at least 2"):
        GRU(vocab=5, memory=1)
