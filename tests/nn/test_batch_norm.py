"""Batch normalization in training and in evaluation, and of a batch that has no variance."""

import pytest
import torch
from torch import nn

from deepcanon.nn.batch_norm import BatchNorm


def images(rows: int, side: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 3, side, side, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 + 1


def layer() -> BatchNorm:
    made = BatchNorm(3).double()
    nn.init.normal_(made.weight, generator=torch.Generator().manual_seed(1))
    nn.init.normal_(made.bias, generator=torch.Generator().manual_seed(2))
    return made


def test_in_training_the_batch_is_brought_to_the_learned_mean_and_spread() -> None:
    norm, x = layer(), images(5, 4)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)
    shape = (1, 3, 1, 1)
    wanted = (x - mean.reshape(shape)) / (variance + 1e-5).sqrt().reshape(shape)
    wanted = wanted * norm.weight.reshape(shape) + norm.bias.reshape(shape)
    torch.testing.assert_close(norm(x), wanted, rtol=1e-12, atol=1e-12)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    torch.testing.assert_close(norm.running_mean, 0.1 * mean)
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var((0, 2, 3)))  # this one with n - 1


def test_in_evaluation_the_running_statistics_serve_and_stay() -> None:
    norm = layer()
    norm(images(5, 4))
    state = {name: value.clone() for name, value in norm.state_dict().items()}
    norm.eval()
    x = images(2, 4, seed=3)
    shape = (1, 3, 1, 1)
    wanted = (x - state["running_mean"].reshape(shape)) / (state["running_var"] + 1e-5).sqrt().reshape(shape)
    wanted = wanted * norm.weight.reshape(shape) + norm.bias.reshape(shape)
    torch.testing.assert_close(norm(x), wanted, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(value, state[name]) for name, value in norm.state_dict().items())


@pytest.mark.parametrize(("rows", "side"), [(1, 2), (2, 1), (4, 3)])
def test_where_torch_has_an_output_it_is_the_same(rows: int, side: int) -> None:
    ours, theirs = BatchNorm(3).double(), nn.BatchNorm2d(3).double()
    x = images(rows, side)
    assert torch.equal(ours(x), theirs(x))
    assert all(torch.equal(value, theirs.state_dict()[name]) for name, value in ours.state_dict().items())


def test_one_value_per_channel_is_taken_as_in_evaluation() -> None:
    norm, x = layer(), images(1, 1)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm2d(3).double()(x)
    norm(images(5, 4))
    state = {name: value.clone() for name, value in norm.state_dict().items()}
    in_training = norm(x)
    assert all(torch.equal(value, state[name]) for name, value in norm.state_dict().items())
    assert torch.equal(in_training, norm.eval()(x))
