"""The LSTM is torch's, and along a text it carries its state."""

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import DataError, Sequences, Stream, UsageError
from deepcanon.data import Dataset
from deepcanon.data.text.streams import in_order
from deepcanon.data.text.windows import windows
from deepcanon.models.recurrent._recurrent import State
from deepcanon.models.recurrent.lstm import LSTM
from deepcanon.runs import checkpoint
from deepcanon.runs.folder import RunFolder


def tokens(rows: int, positions: int, vocab: int = 7) -> Tensor:
    return torch.randint(vocab, (rows, positions), generator=torch.Generator().manual_seed(0))


def test_logits_are_those_of_torchs_lstm() -> None:
    torch.manual_seed(0)
    ours = LSTM(vocab=7, embedding=4, units=5, layers=3, dropout=0.3).double().eval()
    theirs = nn.LSTM(4, 5, 3, batch_first=True).double()
    theirs.load_state_dict(ours.recurrent.state_dict())
    x = tokens(6, 9)
    h, _ = theirs(ours.embedding(x))
    wanted = h @ ours.head.weight.T + ours.head.bias
    torch.testing.assert_close(ours(x), wanted, rtol=0, atol=1e-12)
    nats = -wanted[:, :-1].log_softmax(-1).gather(2, x[:, 1:, None]).squeeze(2)
    lengths = torch.tensor([9, 2, 5, 1, 9, 4])
    counted = torch.arange(8) < lengths[:, None] - 1
    torch.testing.assert_close(ours.log_prob(x, lengths=lengths), -(nats * counted).sum(1), rtol=0, atol=1e-12)
    loss = ours.loss(Sequences(x, lengths))["nll"]
    torch.testing.assert_close(loss, nats[counted].mean(), rtol=0, atol=1e-12)


def test_the_number_of_parameters_is_torchs() -> None:
    model = LSTM(vocab=65, embedding=128, units=256, layers=2)
    assert sum(p.numel() for p in model.recurrent.parameters()) == 921_600


def text(length: int, size: int = 4) -> Stream:
    return in_order(windows(tokens(1, length)[0], size))


def test_windows_with_a_carried_state_are_one_long_pass() -> None:
    torch.manual_seed(0)
    model = LSTM(vocab=7, embedding=4, units=5, layers=2, streams=3).double()
    whole, size = text(61), 3
    assert len(whole) == 15
    order = whole.order(size, torch.Generator()).view(-1, size)
    said: dict[int, Tensor] = {}
    for index in order:
        batch = whole.select(index)
        before = model._found(batch)
        logits, _ = model.read(batch.x[:, :-1], before)
        model.loss(batch)
        said |= {int(i): row for i, row in zip(index, logits, strict=True)}
    stretches = tokens(1, 61)[0, :60].view(3, 20)
    wanted = model(stretches)
    found = torch.stack([torch.cat([said[5 * row + i] for i in range(5)]) for row in range(3)])
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_no_gradient_passes_from_window_to_window() -> None:
    torch.manual_seed(0)
    model = LSTM(vocab=7, embedding=4, units=5, streams=1).double()
    whole = text(9)
    first, second = (whole.select(torch.tensor([i])) for i in range(2))
    model.loss(first)
    state = State(part.clone() for part in model.carried)
    loss = model.loss(second)["nll"]
    found = torch.autograd.grad(loss, list(model.parameters()))
    logits, _ = model.read(second.x[:, :-1], state)
    wanted = torch.autograd.grad(
        nn.functional.cross_entropy(logits.flatten(0, 1), second.x[:, 1:].flatten()), list(model.parameters())
    )
    assert float(state[0].abs().max()) > 0.01
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_a_state_is_carried_only_to_where_the_text_goes_on() -> None:
    torch.manual_seed(0)
    model = LSTM(vocab=7, embedding=4, units=5, streams=2)
    whole = text(30)
    model.loss(whole.select(torch.tensor([0, 3])))
    onward = model._found(whole.select(torch.tensor([4, 2])))[0]  # the second row is no one's successor
    assert torch.equal(onward[:, 0], model.carried[0][:, 1])
    assert not bool(onward[:, 1].any())
    last = int(whole.lengths.argmin())  # after a window that was padded nothing can go on
    model.loss(whole.select(torch.tensor([last])))
    assert model.ends.tolist() == [-1, 4]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    model.loss(whole.select(torch.tensor([1, 4])))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(UsageError, match="states of 2 streams are carried, but the batch has 3 rows"):
        model.train().loss(whole.select(torch.arange(3)))
    unordered = Sequences(whole.x, whole.lengths)
    with pytest.raises(UsageError, match="these data come in no order: add ':stream' to their name"):
        dc.fit(model, Dataset(name="story", kind="text", train=unordered, sizes={"vocab": 7}), quiet=True, steps=1)


def test_a_split_batch_carries_the_same_states() -> None:
    torch.manual_seed(0)
    whole, model = text(61), LSTM(vocab=7, embedding=4, units=5, streams=4)
    split = LSTM(vocab=7, embedding=4, units=5, streams=4)
    split.load_state_dict(model.state_dict())
    data: Dataset[Any] = Dataset(name="story", kind="text", train=whole, sizes={"vocab": 7})
    dc.fit(model, data, quiet=True, steps=3, batch_size=4)
    dc.fit(split, data, quiet=True, steps=3, batch_size=4, accumulate=2)
    for one, other in zip(model.parameters(), split.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-5)
    assert sorted(model.ends.tolist()) == sorted(split.ends.tolist())


def test_a_broken_training_goes_on_with_the_states_it_had(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = LSTM(vocab=7, embedding=4, units=5, streams=3)
    data: Dataset[Any] = Dataset(name="story", kind="text", train=text(61), sizes={"vocab": 7})
    dc.fit(model, data, out=tmp_path, quiet=True, epochs=2, batch_size=3, checkpoint_every=1, keep=99)
    unbroken = {name: value.clone() for name, value in model.state_dict().items()}
    run = RunFolder.open(tmp_path)
    for path in checkpoint.saved(run.checkpoints)[4:]:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
    (tmp_path / "model.safetensors").unlink()
    run.info.pop("sha256")
    run.update(status="running")
    resumed = dc.resume(tmp_path, data, quiet=True).model.state_dict()
    assert bool(unbroken["carried"].any())
    assert all(torch.equal(value, resumed[name]) for name, value in unbroken.items())


def test_it_trains_in_half_precision_on_every_processor() -> None:
    torch.manual_seed(0)
    model, batch = LSTM.example()
    data: Dataset[Any] = Dataset(name="rows", kind="text", train=batch, sizes={"vocab": 5})
    before = float(model.loss(batch)["nll"].detach())
    result = dc.fit(model, data, quiet=True, steps=30, batch_size=16, lr=1e-2, schedule="constant", precision="bf16")
    assert result.train["nll"] < before - 0.1


def test_generation_stops() -> None:
    torch.manual_seed(0)
    model = LSTM(vocab=5, embedding=4, units=6)
    made = model.generate(tokens(3, 4, 5), 30, stop=2, generator=torch.Generator().manual_seed(0))
    assert made.shape == (3, 34)
    for row in made[:, 4:].tolist():
        if 2 in row:
            assert set(row[row.index(2) :]) == {2}
    assert (made[:, -1] == 2).any()


def test_mistakes_raise_an_error_of_one_sentence() -> None:
    with pytest.raises(UsageError, match="units must be at least 1"):
        LSTM(vocab=5, units=0)
    with pytest.raises(UsageError, match="dropout is the probability"):
        LSTM(vocab=5, dropout=1.0)
    with pytest.raises(UsageError, match="memory must be at least 2"):
        LSTM(vocab=5, memory=1)
    model = LSTM(vocab=5)
    with pytest.raises(DataError, match="from 0 to 4; got 6 at position 6 of row 0"):
        model.prepare([Sequences(tokens(3, 9), torch.full((3,), 9))])
    with pytest.raises(DataError, match="padded to 9 positions have lengths from 1 to 9; got from 0 to 9"):
        model.prepare([Sequences(tokens(3, 9, 5), torch.tensor([9, 0, 3]))])


def test_truncated_backpropagation_is_the_whole_one_if_a_window_holds_the_whole_text() -> None:
    torch.manual_seed(0)
    text = torch.randint(5, (25,))
    model = LSTM(vocab=5, units=6, streams=1).double()

    def by_windows(length: int) -> tuple[float, list[Tensor]]:
        """The mean loss and gradient over all windows, the state carried from one to the next."""
        model.train()
        model.zero_grad()
        part = in_order(windows(text, length))
        nats = 0.0
        for row in range(len(part)):
            batch = part.select(torch.tensor([row]))
            share = batch.weight / part.weight
            loss = share * model.loss(batch)["nll"]
            loss.backward()
            nats += loss.item()
        return nats, [cast(Tensor, parameter.grad).clone() for parameter in model.parameters()]

    whole = Sequences(text[None], torch.tensor([25]))
    model.zero_grad()
    loss = model.loss(whole)["nll"]
    loss.backward()
    full = [cast(Tensor, parameter.grad).clone() for parameter in model.parameters()]
    at_once, gradients = by_windows(24)
    assert at_once == pytest.approx(loss.item(), rel=1e-12)
    for found, expected in zip(gradients, full, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)
    in_parts, truncated = by_windows(6)
    assert in_parts == pytest.approx(loss.item(), rel=1e-12)  # the state is carried on
    gaps = [float((found - expected).norm()) for found, expected in zip(truncated, full, strict=True)]
    assert max(gaps) > 1e-3  # and the gradient is not
