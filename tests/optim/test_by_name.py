"""Optimizers by name give torch's own steps, fused where that is to be had."""

import pytest
import torch
from torch import nn

from deepcanon.core import UsageError
from deepcanon.optim import default_lr, optimizer, optimizer_classes


def path(opt: torch.optim.Optimizer, weight: nn.Parameter, steps: int = 5) -> torch.Tensor:
    def closure() -> torch.Tensor:
        opt.zero_grad()
        loss = (weight.square() * torch.arange(1.0, 5.0, dtype=weight.dtype).view(2, 2)).sum() + weight.sum()
        loss.backward()
        return loss

    for _ in range(steps):
        opt.step(closure)  # type: ignore[arg-type]
    return weight.detach()


@pytest.mark.parametrize("name", sorted(optimizer_classes()))
def test_every_optimizer_by_name_steps_as_torch_does(name: str) -> None:
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 4, dtype=torch.float64).view(2, 2)) for _ in range(2))
    lr = default_lr(name)
    mine = path(optimizer(name, [ours], lr), ours)
    reference = path(optimizer_classes()[name]([theirs], lr=lr), theirs)  # type: ignore[call-arg]
    torch.testing.assert_close(mine, reference, rtol=0, atol=1e-12)
    assert not torch.equal(mine, torch.linspace(-1, 1, 4, dtype=torch.float64).view(2, 2))


def test_fused_by_default_and_off_on_request() -> None:
    weight = nn.Parameter(torch.zeros(2))
    assert optimizer("adam", [weight], 0.1).param_groups[0]["fused"] is True
    assert optimizer("adam:fused=false", [weight], 0.1).param_groups[0]["fused"] is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("adm", "did you mean adam"),
        ("sgd:momentun=0.9", "no option 'momentun'"),
        ("adam:lr=3", "no option 'lr'"),
        ("adam:betas=2/3", "refused"),
    ],
)
def test_wrong_optimizers_are_refused_with_a_sentence(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        optimizer(text, [nn.Parameter(torch.zeros(2))], 0.1)
