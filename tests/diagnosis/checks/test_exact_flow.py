from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.diagnosis.checks import plain
from tests.diagnosis.checks.planted import causes, parent, report_of


@pytest.mark.slow
@pytest.mark.parametrize("model", ["realnvp:hidden=16", "maf:hidden=16", "planar", "glow"])
def test_flows_of_the_catalogue_are_exact(model: str) -> None:
    data = "digits:dequantized" if model == "glow" else "moons"
    report = report_of("exact_flow", model, data)
    assert causes(report) == []
    assert report.passed["exact_flow"]["log_det_error"] < 1e-6


def to_latent_times(factor: float) -> dict[str, Any]:
    def to_latent(self: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        z, log_det = parent(self).to_latent(self, x)
        return z, factor * log_det

    return {"to_latent": to_latent}


@pytest.mark.parametrize("factor", [-1.0, 0.0, 2.0])
def test_another_log_determinant_is_named(factor: float) -> None:
    report = report_of("exact_flow", "realnvp:hidden=16", "moons", methods=to_latent_times(factor))
    assert causes(report) == ["wrong log-determinant"]
    assert ("wrong sign" in next(iter(report)).confirmed_by) == (factor == -1)


def test_an_inverse_that_does_not_invert_is_named() -> None:
    def to_data(self: Any, z: Tensor) -> Tensor:
        back: Tensor = parent(self).to_data(self, 1.01 * z)
        return back

    assert causes(report_of("exact_flow", "nice:hidden=16", "moons", methods={"to_data": to_data})) == ["wrong inverse"]


class Scale(nn.Module):
    """A plain flow that scales; ``sign`` is that of its log-determinant."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([0.5, -1.0]))
        self.sign = sign

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * self.log_scale.exp(), self.sign * self.log_scale.sum().expand(len(x))


def negative_log_likelihood(outputs: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
    z, log_det = outputs
    return (0.5 * z.square().sum(1) - log_det).mean()


def test_a_plain_flow_is_known_by_its_loss() -> None:
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    for sign, wanted in ((1.0, []), (-1.0, ["wrong log-determinant"])):
        report = report_of("exact_flow", Scale(sign), x, loss=negative_log_likelihood, optimizer="adam")
        assert causes(report) == wanted


def test_the_wrong_sign_in_a_loss_or_in_a_step_of_ones_own_is_named() -> None:
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))

    def turned(outputs: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        return negative_log_likelihood((outputs[0], -outputs[1]), x)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer, x: Tensor, *, loss: Any) -> None:
        optimizer.zero_grad()
        loss(model(x), x).backward()
        optimizer.step()

    for loss, wanted in ((negative_log_likelihood, []), (turned, ["wrong log-determinant"])):
        assert causes(report_of("exact_flow", Scale(1.0), x, loss=loss, optimizer="adam")) == wanted
        assert plain.causes("exact_flow", Scale(1.0), x, loss=None, step=partial(step, loss=loss)) == wanted


def test_a_module_with_two_outputs_and_another_loss_is_no_flow() -> None:
    def reconstruction(outputs: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        return (outputs[0] - x).square().mean() + outputs[1].mean()

    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    report = report_of("exact_flow", Scale(-1.0), x, loss=reconstruction, optimizer="adam")
    assert causes(report) == []
    assert "not a normalizing flow" in report.skipped["exact_flow"]
