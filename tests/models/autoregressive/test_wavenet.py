"""WaveNet: its layers are torch's dilated convolutions, its receptive field is exact, and queues change nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, pad

from deepcanon.core import UsageError
from deepcanon.models.autoregressive.wavenet import Queues, WaveNet


def small(**options: Any) -> WaveNet:
    torch.manual_seed(0)
    return WaveNet(vocab=7, **{"channels": 5, "skip": 6, "layers": 3, **options}).double().eval()


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(7, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("layers", "stacks", "kernel"), [(3, 1, 2), (2, 2, 3), (1, 1, 4)])
def test_the_receptive_field_is_exact(layers: int, stacks: int, kernel: int) -> None:
    """The gradient of an output reaches back by 1 + (k - 1) times the sum of the dilations, and everywhere there."""
    model = small(layers=layers, stacks=stacks, kernel=kernel)
    field = 1 + (kernel - 1) * stacks * (2**layers - 1)
    assert model.receptive_field == field
    length = field + 6
    embedded = torch.randn(1, length, 5, dtype=torch.float64, requires_grad=True)
    model.embedding.forward = lambda input: embedded  # type: ignore[method-assign]
    (slope,) = torch.autograd.grad(model(tokens(1, length))[0, -1].square().sum(), embedded)
    reached = slope[0].abs().sum(1) > 0
    assert reached.tolist() == [length - place <= field for place in range(length)]


@torch.no_grad()
def test_a_layer_is_a_dilated_convolution_of_torch() -> None:
    model, x = small(kernel=3), tokens(2, 20)
    h, total = model.embedding(x).mT, model.skip.bias[:, None]
    skips = model.skip.weight.split(5, 1)
    residuals: list[Any] = [*model.residuals, model.residuals[0]]  # after the last, nothing reads it
    for layer, residual, skip, dilation in zip(model.layers, residuals, skips, (1, 2, 4), strict=True):
        part: Any = layer
        taps = part.convolution.weight.unflatten(1, (3, 5)).transpose(1, 2)  # (outputs, channels, kernel)
        found = conv1d(pad(h, (2 * dilation, 0)), taps, part.convolution.bias, dilation=dilation)
        z = found[:, :5].tanh() * found[:, 5:].sigmoid()
        h = h + conv1d(z, residual.weight.unsqueeze(2), residual.bias)
        total = total + conv1d(z, skip.unsqueeze(2))
    wanted = model.head(model.inner(total.relu().mT).relu())
    torch.testing.assert_close(model(x), wanted, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_with_queues_it_reads_as_without_them() -> None:
    model, x = small(stacks=2), tokens(3, 40)
    whole, state = model(x), None
    for part, wanted in zip(x.split([2, 1, 1, 16, 20], 1), whole.split([2, 1, 1, 16, 20], 1), strict=True):
        logits, state = model.read(part, state)
        torch.testing.assert_close(logits, wanted, rtol=1e-12, atol=1e-12)
        assert [queue.shape[1] for queue in state] == [1, 2, 4, 1, 2, 4]  # which do not grow
    assert isinstance(state, Queues)
    assert torch.equal(state.select(torch.tensor([2, 0]))[3], state[3][[2, 0]])
    text = x[:, :3]
    for _ in range(20):
        text = torch.cat([text, model(text)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(model.generate(x[:, :3], 20, temperature=0), text)


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="kernel must be at least 2"):
        WaveNet(5, kernel=1)
