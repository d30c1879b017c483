"""Density distillation: the divergence is the closed form of Gaussians, and a Gaussian teacher is learned."""

from typing import Any

import pytest
import torch
from torch.distributions import MultivariateNormal
from torch.distributions import kl_divergence as torchs

import deepcanon as dc
from deepcanon.studies.density_distillation import distilled, kl_divergence


def gaussian_of(flow: Any) -> MultivariateNormal:
    """What a flow of linear steps is, by where it takes 0 and the axes."""
    with torch.no_grad():
        corners = flow.to_data(torch.cat([torch.zeros(1, 2), torch.eye(2)]))
    factor = (corners[1:] - corners[0]).T.double()
    return MultivariateNormal(corners[0].double(), factor @ factor.T)


def linear(name: str, seed: int) -> Any:
    """A flow of one step whose shifts are linear and whose scales are constant."""
    torch.manual_seed(seed)
    flow: Any = dc.find(name)(features=2, transforms=1, hidden=())
    step = flow.flow.transforms[1]
    (step if name == "maf" else step.transform).output.mask[:2] = 0
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return flow


def test_the_divergence_is_the_closed_form_of_gaussians() -> None:
    student, teacher = linear("iaf", 0), linear("maf", 1)
    wanted = float(torchs(gaussian_of(student), gaussian_of(teacher)))
    found, error = kl_divergence(student, teacher, seed=0, count=50_000)
    assert found == pytest.approx(wanted, abs=5 * error)
    assert error < 0.1 * wanted


@pytest.mark.slow
def test_a_gaussian_teacher_is_learned_without_data() -> None:
    teacher = linear("maf", 1)
    x = teacher.sample(500, generator=torch.Generator().manual_seed(0))
    student, curve = distilled(dc.find("iaf"), teacher, steps=400, seed=0, around=x)
    assert curve[-1][1] < 0.2 * curve[0][1]
    assert kl_divergence(student, teacher, seed=0)[0] < 0.03
