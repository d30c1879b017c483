"""The loss as a function of the weights is the model's own loss, in double precision, always the same function."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from deepcanon.core import Batch, Labeled, UsageError
from deepcanon.core.toy_classifier import ToyClassifier
from deepcanon.insights._engines.objective import Objective


class Noisy(nn.Module):
    """A loss with random numbers in it, and a module that insists on single precision."""

    def __init__(self, single: bool) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.single = single

    def loss(self, batch: Batch) -> dict[str, Tensor]:
        x = batch.x.float() if self.single else batch.x
        return {"one": (self.layer(x) + torch.randn_like(x[:, :1])).square().mean(), "two": self.layer.bias.sum()}


def test_it_is_the_sum_of_the_terms() -> None:
    model, batch = ToyClassifier.example()
    loss = Objective(model, batch)
    assert float(loss(loss.theta)) == pytest.approx(float(model.loss(batch)["nll"].detach()), rel=1e-6)
    zero = loss(torch.zeros_like(loss.theta))
    assert float(zero) == pytest.approx(float(torch.tensor(2.0).log()))


@pytest.mark.parametrize("single", [False, True])
def test_its_random_numbers_are_always_the_same(single: bool) -> None:
    loss = Objective(Noisy(single), Batch(torch.ones(5, 2)))
    state = torch.get_rng_state()
    assert float(loss(loss.theta)) == float(loss(loss.theta))
    assert torch.equal(torch.get_rng_state(), state)
    assert loss.precision == (torch.float32 if single else torch.float64)


def test_a_module_without_a_loss_gets_one_from_the_labels() -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(3, 2).double(), torch.randn(4, 3, dtype=torch.float64)
    classes = torch.tensor([0, 1, 1, 0])
    loss = Objective(layer, Labeled(x, classes))
    torch.testing.assert_close(loss(loss.theta), cross_entropy(layer(x), classes).detach())
    targets = torch.randn(4, 2, dtype=torch.float64)
    loss = Objective(layer, Labeled(x, targets))
    torch.testing.assert_close(loss(loss.theta), (layer(x) - targets).square().sum(1).mean().detach())
    with pytest.raises(UsageError, match="mode"):
        Objective(layer, Labeled(x, targets), mode="asleep")  # type: ignore[arg-type]


def test_attention_can_be_differentiated_twice() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    loss = Objective(layer, Labeled(x, torch.zeros(2, 3, 4)))
    hessian = torch.autograd.functional.hessian(loss, loss.theta)
    assert bool(hessian.isfinite().all())
    assert float(hessian.abs().max()) > 0
