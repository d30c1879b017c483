"""What holds of all recurrent models: torch's numbers, and one law over finite sequences."""

from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import deepcanon as dc
from deepcanon.core import Sequences, UsageError
from deepcanon.data.text.streams import in_order
from deepcanon.data.text.windows import windows
from deepcanon.models.recurrent.gru import GRU
from deepcanon.models.recurrent.gru_predictor import GRUPredictor
from deepcanon.models.recurrent.lstm import LSTM
from deepcanon.models.recurrent.lstm_predictor import LSTMPredictor
from deepcanon.models.recurrent.rnn import RNN
from deepcanon.models.recurrent.rnn_predictor import RNNPredictor

LANGUAGES: list[Any] = [RNN, GRU, LSTM]
PREDICTORS: list[Any] = [
    (RNNPredictor, partial(nn.RNN, nonlinearity="relu")),
    (GRUPredictor, nn.GRU),
    (LSTMPredictor, nn.LSTM),
]
LENGTHS = torch.tensor([6, 1, 4, 3])
END = 3


def values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("ours", "theirs"), PREDICTORS)
@pytest.mark.parametrize("every_position", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_predictors_are_torchs_on_packed_sequences(
    ours: Any, theirs: Any, every_position: bool, bidirectional: bool
) -> None:
    torch.manual_seed(0)
    model = ours(3, targets=2, units=5, layers=2, bidirectional=bidirectional, every_position=every_position)
    model = model.double().eval()
    assert model.causal is not bidirectional
    peer = theirs(3, 5, 2, bidirectional=bidirectional, batch_first=True).double()
    if bidirectional:
        for depth in range(2):
            for suffix, layers in (("", "forward_layers"), ("_reverse", "backward_layers")):
                for name, weight in getattr(model.recurrent, layers)[depth].named_parameters():
                    peer.get_parameter(f"{name.removesuffix('_l0')}_l{depth}{suffix}").data.copy_(weight)
    else:
        peer.load_state_dict(model.recurrent.state_dict())
    x = values(4, 6, 3)
    packed, last = peer(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    outputs, _ = pad_packed_sequence(packed, batch_first=True)
    inside = torch.arange(6) < LENGTHS.unsqueeze(1)
    h = last[0] if isinstance(last, tuple) else last
    hidden = outputs[inside] if every_position else torch.cat([*h[-2:]], 1) if bidirectional else h[-1]
    found = model(x.masked_fill(~inside.unsqueeze(2), torch.nan), LENGTHS)
    torch.testing.assert_close(found[inside] if every_position else found, model.head(hidden), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cls", LANGUAGES)
def test_windows_with_a_carried_state_are_one_long_pass(cls: Any) -> None:
    torch.manual_seed(0)
    model = cls(vocab=7, embedding=4, units=5, layers=2, streams=1).double()
    text = torch.randint(7, (25,))
    parts = in_order(windows(text, 6))
    nats = 0.0
    for row in range(len(parts)):
        batch = parts.select(torch.tensor([row]))
        nats += batch.weight * model.loss(batch)["nll"].item()
    assert nats == pytest.approx(-model.log_prob(text[None]).item(), rel=1e-12)


def stirred(cls: Any) -> Any:
    """A model of three tokens and an end token whose probabilities are far from equal."""
    torch.manual_seed(0)
    model = cls(vocab=4, embedding=4, units=6, layers=2).double()
    nn.init.normal_(model.head.weight)
    nn.init.normal_(model.head.bias)
    return model.eval()


@pytest.mark.parametrize("cls", LANGUAGES)
@torch.no_grad()
def test_probabilities_of_all_finite_sequences_sum_to_one_minus_the_tail(cls: Any) -> None:
    """After the begin token 0, every sequence of tokens that ends with its only end token is one event."""
    model = stirred(cls)
    total = 0.0
    for length in range(6):  # the number of tokens before the end token
        bodies = torch.tensor(list(product(range(END), repeat=length)), dtype=torch.long).view(END**length, length)
        begin, end = torch.zeros(len(bodies), 1, dtype=torch.long), torch.full((len(bodies), 1), END)
        unfinished = float(model.log_prob(torch.cat([begin, bodies], 1)).exp().sum())  # of being at least so long
        assert total + unfinished == pytest.approx(1, abs=1e-12)
        finished = float(model.log_prob(torch.cat([begin, bodies, end], 1)).exp().sum())
        assert finished > 1e-3
        total += finished
    first = model(torch.zeros(1, 1, dtype=torch.long))[0, 0].softmax(0)  # p(x_1) is what follows the begin token
    one = torch.tensor([[0, token] for token in range(4)])
    torch.testing.assert_close(model.log_prob(one).exp(), first, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cls", LANGUAGES)
@torch.no_grad()
def test_a_continuation_of_a_prefix_has_the_ratio_of_their_probabilities(cls: Any) -> None:
    """p(x | c) = p(c x) / p(c), in what is read on from the state after c and in how often x is generated."""
    model = stirred(cls)
    prefix = torch.tensor([[0, 2, 1]])
    every = torch.tensor(list(product(range(4), repeat=2)))
    whole = torch.cat([prefix.expand(len(every), -1), every], 1)
    ratio = (model.log_prob(whole) - model.log_prob(prefix)).exp()
    assert float(ratio.sum()) == pytest.approx(1, abs=1e-12)
    logits, state = model.read(prefix, None)
    first = logits[0, -1].log_softmax(0)
    second = model.read(every[:, :1], state.select(torch.zeros(len(every), dtype=torch.long)))[0][:, 0].log_softmax(1)
    read_on = first[every[:, 0]] + second.gather(1, every[:, 1:]).squeeze(1)
    torch.testing.assert_close(read_on.exp(), ratio, rtol=0, atol=1e-12)
    drawn = model.generate(prefix.expand(4000, -1), 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn[:, :3], prefix.expand(4000, -1))
    counts = (drawn[:, 3] * 4 + drawn[:, 4]).bincount(minlength=16)
    chi_square = ((counts - 4000 * ratio).square() / (4000 * ratio)).sum()
    assert float(chi_square) < 44.3  # the 99.99 % quantile at 15 degrees of freedom


@pytest.mark.parametrize(("cls", "share"), [(RNN, 1.0), (GRU, 0.4), (LSTM, 0.4)])
def test_the_gradient_on_own_inputs_is_the_mean_over_all_that_can_be_drawn(cls: Any, share: float) -> None:
    """Inputs are enumerated: each is the true token, or with the share's probability what the model draws there."""
    torch.manual_seed(0)
    rows, true = 20000, torch.tensor([1, 0, 2, 1, 0])
    model = cls(vocab=3, embedding=3, units=3, own_inputs=(share,)).double().train()
    nn.init.normal_(model.head.weight)
    parameters = list(model.parameters())
    first = second = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    total = 0.0
    for drawn in product(range(3), repeat=3):
        inputs = torch.tensor([[1, *drawn]])
        logits = model(inputs)[0]
        p = logits.softmax(1).detach()
        chance = 1.0
        for position, token in enumerate(drawn):
            chance *= share * float(p[position, token]) + (1 - share) * (token == int(true[position + 1]))
        loss = nn.functional.cross_entropy(logits, true[1:])
        gradient = torch.cat([each.flatten() for each in torch.autograd.grad(loss, parameters)])
        first, second, total = first + chance * gradient, second + chance * gradient.square(), total + chance
    assert total == pytest.approx(1, abs=1e-12)
    batch = Sequences(true.expand(rows, -1), torch.full((rows,), 5))
    found = torch.cat([each.flatten() for each in torch.autograd.grad(model.loss(batch)["nll"], parameters)])
    error = ((second - first.square()).clamp_min(0) / rows).sqrt()
    assert bool(((found - first).abs() < 5 * error + 1e-9).all())
    assert float(error.max()) < 0.01
    forced = nn.functional.cross_entropy(model(true[None, :-1])[0], true[1:])
    forced_gradient = torch.cat([each.flatten() for each in torch.autograd.grad(forced, parameters)])
    assert float((forced_gradient - first).abs().max()) > 10 * float(error.max())  # that of teacher forcing is another
    model.eval()
    assert model.loss(batch)["nll"].item() == pytest.approx(forced.item(), rel=1e-9)  # where nothing is drawn


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seq2seq", "seq2seq_attention", "caption"])
def test_a_model_of_targets_learns_from_own_inputs_given_its_source(name: str) -> None:
    """Of sources that make one token certain, the draws after the begin token are those tokens, row by row."""
    torch.manual_seed(0)
    if name == "caption":
        model: Any = dc.find(name)(1, 2, 2, 4, 0, 1, hidden=(), own_inputs=(1.0,), dropout=0.0)
        x = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(-1, -1, 2, 2)
        context: Any = x
    else:
        model = dc.find(name)(2, 4, 0, 1, embedding=8, units=16, own_inputs=(1.0,))
        x = torch.tensor([[0], [1]])
        context = (x, torch.tensor([1, 1]))
    y = torch.tensor([[0, 2, 2, 1], [0, 3, 3, 1]])
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(80):  # of true tokens, in eval mode
        loss = -model.eval().log_prob(y, context=context).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    bound = model.train().given(context)
    wrong = torch.tensor([[0, 3, 3], [0, 2, 2]])
    with torch.no_grad():
        assert torch.equal(bound._inputs(wrong, None), y[:, :3])  # what it draws, whatever the true tokens are
        assert torch.equal(bound.eval()._inputs(wrong, None), wrong)


def test_the_share_of_own_inputs_follows_its_schedule() -> None:
    torch.manual_seed(0)
    model = RNN(vocab=50, embedding=3, units=3, own_inputs=(0.0, 0.8))
    tokens = torch.randint(50, (400, 11))
    for progress, share in ((0.0, 0.0), (0.5, 0.4), (1.0, 0.8)):
        model.progress = progress
        replaced = (model._inputs(tokens, None)[:, 1:] != tokens[:, 1:]).float().mean()
        assert float(replaced) == pytest.approx(0.98 * share, abs=0.03)  # a draw is the true token once in fifty
        assert torch.equal(model._inputs(tokens, None)[:, 0], tokens[:, 0])
    for shares in ((0.1, 0.2, 0.3), (1.5,)):
        with pytest.raises(UsageError, match="own_inputs are shares from 0 to 1"):
            RNN(vocab=5, own_inputs=shares)
