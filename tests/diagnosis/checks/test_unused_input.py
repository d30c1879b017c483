from __future__ import annotations

import torch
from torch import Tensor, nn

from tests.diagnosis.checks.plain import causes, net


class Forgetful(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = super().forward(0 * x)  # type: ignore[no-untyped-call]
        return out


def test_an_input_that_is_lost_is_seen_and_a_start_at_zero_is_not() -> None:
    assert causes("unused_input", Forgetful(*net())) == ["input not used"]
    model = net()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert causes("unused_input", model) == []
    assert causes("unused_input", net(activation=nn.Sigmoid, layers=12)) == []
    assert causes("unused_input", net(activation=nn.Sigmoid, layers=20)) == []


class Reader(nn.Module):
    """Classes of waves by a recurrent network that is read out at one step, at the last or at the first."""

    def __init__(self, step: int, tokens: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(9, 8) if tokens else nn.Linear(1, 8)
        self.rnn, self.head, self.step = nn.GRU(8, 16, batch_first=True), nn.Linear(16, 3), step

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.rnn(self.embedding(x))[0][:, self.step])
        return out


class Detached(Reader):
    """The same, with a state that is cut off after each step."""

    def forward(self, x: Tensor) -> Tensor:
        state = None
        for step in self.embedding(x).unbind(1):
            out, state = self.rnn(step.unsqueeze(1), None if state is None else state.detach())
        found: Tensor = self.head(out[:, 0])
        return found


class Pooled(nn.Module):
    """Classes of padded tokens by their mean, where a mask says which are read."""

    def __init__(self, inverted: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head, self.inverted = nn.Embedding(9, 8), nn.Linear(8, 3), inverted

    def forward(self, x: Tensor) -> Tensor:
        read = ((x == 0) if self.inverted else (x > 0)).unsqueeze(2)
        out: Tensor = self.head((self.embedding(x) * read).sum(1) / read.sum(1).clamp_min(1))
        return out


def test_of_sequences_it_is_seen_which_steps_and_tokens_are_not_read() -> None:
    random = torch.Generator().manual_seed(0)
    waves = torch.randn(600, 12, 1, generator=random)
    classes = waves[:, :, 0].cumsum(1).argmax(1) // 4
    assert causes("unused_input", Reader(-1), (waves, classes)) == []
    assert causes("unused_input", Reader(0), (waves, classes)) == ["input not used: time step"]
    assert causes("unused_input", Detached(-1), (waves, classes)) == ["detached graph"]
    tokens = torch.randint(1, 9, (600, 12), generator=random)
    tokens[torch.arange(12) >= torch.randint(4, 13, (600, 1), generator=random)] = 0
    most = torch.nn.functional.one_hot(tokens, 9)[:, :, 1:4].sum(1).argmax(1)
    assert causes("unused_input", Pooled(inverted=False), (tokens, most)) == []
    assert causes("unused_input", Pooled(inverted=True), (tokens, most)) == ["input not used: mask"]
    assert causes("unused_input", Reader(-1, tokens=True), (tokens, most)) == []
