"""The chapter models, started from torch's weights, take fifty steps beside torch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import deepcanon.tensor as dt
from deepcanon.tensor import chapters
from deepcanon.tensor.nn import SGD, Adam, Module

STEPS, BOUND = 50, 1e-8
GENERATOR = np.random.default_rng(0)


def race(
    ours: Module,
    loss: Callable[[int], Any],
    theirs: nn.Module,
    names: Sequence[str],
    torch_loss: Callable[[int], torch.Tensor],
    optimizer: Any,
    torch_optimizer: torch.optim.Optimizer,
) -> None:
    """Start ours from torch's weights (``names`` in our order), train both, and compare losses and weights."""
    there = dict(theirs.named_parameters())
    ours.load(
        {name: there[other].detach().numpy() for (name, _), other in zip(ours.named_parameters(), names, strict=True)}
    )
    for step in range(STEPS):
        value = loss(step)
        optimizer.step(dt.gradients(value, ours.parameters()))
        torch_optimizer.zero_grad()
        other = torch_loss(step)
        other.backward()
        torch_optimizer.step()
        assert abs(value.item() - other.item()) <= BOUND * max(1.0, abs(other.item()))
    for p, name in zip(ours.parameters(), names, strict=True):
        np.testing.assert_allclose(p.numpy(), there[name].detach().numpy().reshape(p.shape), rtol=0, atol=BOUND)


def test_convolutional_net_with_batch_norm() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    ).double()
    ours = chapters.ConvNet(8, 3, 4, GENERATOR)
    x, y = GENERATOR.normal(size=(STEPS, 16, 1, 8, 8)), GENERATOR.integers(3, size=(STEPS, 16))
    race(
        ours,
        lambda i: ours.loss(dt.asarray(x[i]), y[i]),
        net,
        ["0.weight", "0.bias", "1.weight", "1.bias", "5.weight", "5.bias"],
        lambda i: F.cross_entropy(net(torch.tensor(x[i])), torch.tensor(y[i])),
        SGD(ours.parameters(), 0.05, momentum=0.9, nesterov=True),
        torch.optim.SGD(net.parameters(), 0.05, momentum=0.9, nesterov=True),
    )
    norm: Any = net[1]
    np.testing.assert_allclose(ours.norm.mean, norm.running_mean.numpy(), atol=BOUND)
    np.testing.assert_allclose(ours.norm.var, norm.running_var.numpy(), atol=BOUND)
    ours.norm.training = False
    np.testing.assert_allclose(
        ours(dt.asarray(x[0])).numpy(), net.eval()(torch.tensor(x[0])).detach().numpy(), atol=1e-7
    )


def test_lstm() -> None:
    torch.manual_seed(0)
    net = nn.ModuleDict(
        {"embed": nn.Embedding(7, 5), "lstm": nn.LSTM(5, 5, batch_first=True), "head": nn.Linear(5, 7)}
    ).double()
    cell: Any = net["lstm"]
    cell.bias_hh_l0.requires_grad_(False).zero_()  # torch has two biases that are only ever added
    ours = chapters.LSTM(7, 5, GENERATOR)
    tokens = GENERATOR.integers(7, size=(STEPS, 6, 9))

    def torch_loss(i: int) -> torch.Tensor:
        batch = torch.tensor(tokens[i])
        logits = net["head"](net["lstm"](net["embed"](batch[:, :-1]))[0])
        return F.cross_entropy(logits.reshape(-1, 7), batch[:, 1:].reshape(-1))

    race(
        ours,
        lambda i: ours.loss(tokens[i]),
        net,
        ["embed.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0", "head.weight", "head.bias"],
        torch_loss,
        Adam(ours.parameters(), 1e-2),
        torch.optim.Adam([p for p in net.parameters() if p.requires_grad], 1e-2),
    )


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_attention_block_with_layer_norm() -> None:
    torch.manual_seed(0)
    net = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
    ).double()
    ours = chapters.AttentionBlock(8, 2, GENERATOR)
    x, target = GENERATOR.normal(size=(2, STEPS, 3, 5, 8))
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    names = ["norm1.weight", "norm1.bias", "self_attn.in_proj_weight", "self_attn.in_proj_bias"]
    names += ["self_attn.out_proj.weight", "self_attn.out_proj.bias", "norm2.weight", "norm2.bias"]
    names += ["linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias"]
    race(
        ours,
        lambda i: ours.loss(dt.asarray(x[i]), dt.asarray(target[i])),
        net,
        names,
        lambda i: F.mse_loss(net(torch.tensor(x[i]), src_mask=mask), torch.tensor(target[i])),
        Adam(ours.parameters(), 1e-3),
        torch.optim.Adam(net.parameters(), 1e-3),
    )


def test_variational_autoencoder() -> None:
    torch.manual_seed(0)
    layers = {
        "inward": nn.Linear(12, 9),
        "code": nn.Linear(9, 4),
        "outward": nn.Linear(2, 9),
        "pixels": nn.Linear(9, 12),
    }
    net = nn.ModuleDict(layers).double()
    ours = chapters.VAE(12, 9, 2, GENERATOR)
    x = (GENERATOR.random((STEPS, 20, 12)) < 0.3).astype(float)
    noise = GENERATOR.normal(size=(STEPS, 20, 2))

    def torch_loss(i: int) -> torch.Tensor:
        data = torch.tensor(x[i])
        mean, log_var = net["code"](torch.tanh(net["inward"](data))).chunk(2, 1)
        posterior = torch.distributions.Normal(mean, (0.5 * log_var).exp())
        z = mean + (0.5 * log_var).exp() * torch.tensor(noise[i])
        logits = net["pixels"](torch.tanh(net["outward"](z)))
        likelihood = torch.distributions.Bernoulli(logits=logits).log_prob(data).sum(1)
        kl = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(torch.zeros_like(mean), 1.0)).sum(
            1
        )
        return torch.mean(kl - likelihood)

    race(
        ours,
        lambda i: ours.loss(dt.asarray(x[i]), noise[i]),
        net,
        [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")],
        torch_loss,
        SGD(ours.parameters(), 0.01, momentum=0.5),
        torch.optim.SGD(net.parameters(), 0.01, momentum=0.5),
    )
