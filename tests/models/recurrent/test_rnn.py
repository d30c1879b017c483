"""The language model without gates is torch's recurrent network between an embedding and a softmax."""

from typing import Any

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.models.recurrent.rnn import RNN


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_logits_are_those_of_torchs_network(nonlinearity: Any) -> None:
    torch.manual_seed(0)
    ours = RNN(vocab=7, embedding=4, units=5, layers=3, dropout=0.3, nonlinearity=nonlinearity).double().eval()
    theirs = nn.RNN(4, 5, 3, nonlinearity=nonlinearity, batch_first=True).double()
    theirs.load_state_dict(ours.recurrent.state_dict())
    x = torch.randint(7, (6, 9), generator=torch.Generator().manual_seed(0))
    wanted = ours.head(theirs(ours.embedding(x))[0])
    torch.testing.assert_close(ours(x), wanted, rtol=0, atol=1e-12)
    nats = -wanted[:, :-1].log_softmax(-1).gather(2, x[:, 1:, None]).squeeze(2)
    torch.testing.assert_close(ours.log_prob(x), -nats.sum(1), rtol=0, atol=1e-12)


def test_the_number_of_parameters_is_torchs() -> None:
    model = RNN(vocab=65, embedding=128, units=256, layers=2)
    assert sum(p.numel() for p in model.recurrent.parameters()) == 230_400


def test_another_nonlinearity_is_refused() -> None:
    with pytest.raises(UsageError, match="nonlinearity must be one of tanh, relu, identity"):
        RNN(vocab=5, nonlinearity="sine")  # type: ignore[arg-type]
