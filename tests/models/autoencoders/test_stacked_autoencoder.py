"""Layer by layer: without activations it is PCA inside PCA, with sigmoids it learns what a random start does not."""

from itertools import chain
from typing import Any

import pytest
import torch
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA
from torch import Tensor

import deepcanon as dc
from deepcanon.core import Batch, UsageError
from deepcanon.models.autoencoders.autoencoder import Autoencoder
from deepcanon.models.autoencoders.stacked_autoencoder import StackedAutoencoder


def anisotropic(rows: int = 200) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(8, 8, generator=generator, dtype=torch.float64))
    scales = torch.logspace(0, -1, 8, dtype=torch.float64)
    x: Tensor = torch.randn(rows, 8, generator=generator, dtype=torch.float64) * scales @ basis + 3
    return x


def learn(turn: Any, x: Tensor) -> None:
    """Go to the optimum of a turn."""
    optimizer = torch.optim.LBFGS(turn.parameters, max_iter=1000, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

    def closure() -> Tensor:
        optimizer.zero_grad()
        (loss,) = turn.loss(Batch(x)).values()
        loss.backward()
        assert isinstance(loss, Tensor)
        return loss

    optimizer.step(closure)


@pytest.mark.slow
def test_without_activations_each_layer_finds_the_subspace_of_pca_by_itself() -> None:
    torch.manual_seed(0)
    x = anisotropic()
    model = StackedAutoencoder(8, 2, (6, 4), activation="identity", tied=True).double()
    *layers, _ = model.turns()
    for place, (width, turn) in enumerate(zip((6, 4, 2), layers, strict=True)):
        learn(turn, x)
        zero, *units = model.decoder[4 - 2 * place :](torch.eye(width + 1, width).roll(1, 0).double()).detach()
        columns = torch.stack(units) - zero
        components = PCA(width).fit(x.numpy()).components_
        assert subspace_angles(columns.numpy().T, components.T).max() < 1e-3


def test_at_every_step_one_turn_is_due_and_each_layer_has_its_own_parameters() -> None:
    model = StackedAutoencoder(8, 2, (6, 4), greedy=0.75)
    turns: Any = model.turns()
    due = [[turn.name for turn in turns if turn.due(step, 16)] for step in range(1, 17)]
    assert due == [[name] for name in ["layer_1"] * 4 + ["layer_2"] * 4 + ["layer_3"] * 4 + ["all"] * 4]
    *layers, together = ([id(parameter) for parameter in turn.parameters] for turn in turns)
    assert sorted(chain(*layers)) == sorted(together)


def test_a_layer_reconstructs_its_input_in_the_whole_net() -> None:
    model: Any = StackedAutoencoder(3, 3, (3, 3), activation="tanh").double()
    x = anisotropic(20)[:, :3]
    with torch.no_grad():
        inside = model.encoder[:2](x)  # what the first layer gives
        reconstructed = model.decoder[2:4](model.encoder[2:4](inside))  # the second layer and its decoder
    assert model.layer_loss(1, Batch(x))["layer_2"].item() == pytest.approx(
        float((reconstructed - inside).square().sum(1).mean()), rel=1e-12
    )


def test_without_greedy_steps_it_is_the_plain_autoencoder_bit_for_bit() -> None:
    x = anisotropic()
    torch.manual_seed(0)
    stacked = StackedAutoencoder(8, 2, (6, 4), greedy=0.0).double()
    plain = Autoencoder(8, 2, (6, 4), activation="sigmoid").double()
    plain.load_state_dict(stacked.state_dict())
    for model in (stacked, plain):
        dc.fit(model, dc.from_tensors(x), quiet=True, steps=5, batch_size=50, lr=1e-2)
    for name, value in plain.state_dict().items():
        assert torch.equal(stacked.state_dict()[name], value)


@pytest.mark.slow
def test_layer_by_layer_a_deep_net_of_sigmoids_learns_what_it_does_not_from_a_random_start() -> None:
    digits = dc.load_data("digits")
    error = {}
    for greedy in (0.5, 0.0):
        torch.manual_seed(0)
        model = StackedAutoencoder(64, greedy=greedy)
        error[greedy] = dc.fit(model, digits, quiet=True, epochs=60).test["reconstruction"]
    assert error[0.5] < 0.6 * error[0.0]


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="greedy is a share of the training"):
        StackedAutoencoder(8, greedy=1.0)
