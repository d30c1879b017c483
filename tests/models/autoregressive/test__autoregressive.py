"""The engine of autoregressive models holds categories, contexts and directed graphical models, by enumeration."""

from collections.abc import Iterable
from typing import Any, Self

import pytest
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import one_hot

from deepcanon import laws
from deepcanon.core import Batch, ClassConditional, DataError, Labeled
from deepcanon.models.autoregressive._autoregressive import Autoregressive
from deepcanon.nn.masked import (
    MaskedLinear,
    ancestral_order,
    autoregressive_mask,
    owner_mask,
    parent_mask,
    spread_degrees,
)


class CategoricalMADE(ClassConditional, Autoregressive[Labeled]):
    r"""A masked network of categories given a class, with the class as units of degree 0.

    .. math:: p(x \mid y) = \prod_d p(x_d \mid x_{<d}, y) \qquad (1)

    References:
        | MADE: Masked Autoencoder for Distribution Estimation (Germain et al., 2015), https://arxiv.org/abs/1502.03509

    Arguments:
        features: The number of values.
        levels: The number of categories of each.
        classes: The number of classes.
    """

    def __init__(self, features: int, levels: int, classes: int) -> None:
        super().__init__()
        self.features, self.levels, self.classes = features, levels, classes
        values = torch.arange(1, features + 1).repeat_interleave(levels)
        hidden = spread_degrees(features, 12)
        given = torch.cat([torch.zeros(classes, dtype=torch.long), values])
        self.first = MaskedLinear(autoregressive_mask(given, hidden))
        between = torch.cat([torch.zeros(classes, dtype=torch.long), hidden])
        self.last = MaskedLinear(autoregressive_mask(between, values, strictly=True))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randint(3, (24, 4), generator=Generator().manual_seed(0)).float()
        return cls(4, 3, 2), Labeled(x, torch.arange(24) % 2)

    def logits(self, x: Tensor) -> Tensor:
        context = self._context(len(x))
        assert isinstance(context, Tensor)
        like = self.first.weight
        told, values = one_hot(context, self.classes).to(like), one_hot(x.long(), self.levels).flatten(1).to(like)
        hidden = self.first(torch.cat([told, values], 1)).tanh()
        logits: Tensor = self.last(torch.cat([told, hidden], 1)).unflatten(1, (self.features, self.levels))  # eq. (1)
        return logits


PARENTS = [[2, 3], [], [1], [1]]
"""A diamond, whose order is not that of the data: 1 -> 2, 1 -> 3, both -> 0."""


class Network(Autoregressive[Batch]):
    r"""A directed graphical model of binary values, each with a small network of its parents.

    .. math:: p(x) = \prod_d p(x_d \mid x_{\mathrm{parents}(d)}) \qquad (1)

    References:
        | Probabilistic Reasoning in Intelligent Systems (Pearl, 1988)

    Arguments:
        features: The number of values.
    """

    def __init__(self, features: int = 4) -> None:
        super().__init__()
        self.features = features
        owners = torch.arange(features).repeat_interleave(3)
        self.first = MaskedLinear(parent_mask(PARENTS, owners))
        self.last = MaskedLinear(owner_mask(owners, torch.arange(features)))

    @classmethod
    def example(cls) -> tuple[Self, Batch]:
        return cls(), Batch(torch.rand(32, 4, generator=Generator().manual_seed(0)).round())

    def drawing_order(self) -> Iterable[int]:
        return [int(value) for value in ancestral_order(PARENTS)]

    def logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.first(x).tanh())  # eq. (1)
        return logits


def stirred(model: Any) -> Any:
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.double()


@pytest.mark.parametrize("cls", [CategoricalMADE, Network])
def test_the_engine_keeps_all_laws(cls: Any) -> None:
    assert laws.kinds_of(cls) == ["contract", "discrete"]
    torch.manual_seed(0)
    outcomes = laws.check(cls)
    assert not [each for each in outcomes if not each.holds], laws.report(outcomes)
    assert "probabilities sum to one" in {each.law for each in outcomes}


def test_the_joint_of_categories_is_the_product_of_conditionals_read_off_the_table() -> None:
    """The conditionals of the table of all probabilities are those that the model gives, for either class."""
    model = stirred(CategoricalMADE(3, 3, 2))
    x = torch.cartesian_prod(*[torch.arange(3.0)] * 3).double()
    for label in range(2):
        table = model.log_prob(x, context=torch.tensor([label])).detach().exp().reshape(3, 3, 3)
        assert float(table.sum()) == pytest.approx(1, abs=1e-12)
        shares = model.given(label)(x).detach().reshape(3, 3, 3, 3, 3)  # x1, x2, x3, value, level
        first, second, third = table.sum((1, 2)), table.sum(2), table
        torch.testing.assert_close(shares[0, 0, 0, 0], first)
        torch.testing.assert_close(shares[:, 0, 0, 1], second / first.unsqueeze(1))
        torch.testing.assert_close(shares[:, :, 0, 2], third / second.unsqueeze(2))
    assert not torch.allclose(model.given(0)(x), model.given(1)(x))


def test_in_a_graphical_model_children_are_independent_given_their_parents() -> None:
    """In the table of all probabilities, 2 and 3 are independent given 1, and 0 of 1 given 2 and 3; not without."""
    model = stirred(Network())
    x = torch.cartesian_prod(*[torch.arange(2.0)] * 4).double()
    table = model.log_prob(x).detach().exp().reshape(2, 2, 2, 2)
    assert float(table.sum()) == pytest.approx(1, abs=1e-12)
    joint = table.sum(0)  # of 1, 2 and 3
    one = joint.sum((1, 2))
    torch.testing.assert_close(joint * one[:, None, None], joint.sum(2)[:, :, None] * joint.sum(1)[:, None, :])
    given = table / joint  # of 0
    torch.testing.assert_close(given[:, 0], given[:, 1])
    pair = joint.sum(0)
    assert not torch.allclose(pair, pair.sum(1, keepdim=True) * pair.sum(0, keepdim=True), rtol=0, atol=1e-4)


def test_an_output_depends_on_its_parents_only() -> None:
    model = stirred(Network())
    x = torch.randn(4, dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(lambda row: model.logits(row.unsqueeze(0))[0], x)
    wanted = torch.zeros(4, 4, dtype=torch.bool)
    for value, parents in enumerate(PARENTS):
        wanted[value, parents] = True
    assert torch.equal(slope != 0, wanted)


def test_categories_beyond_the_levels_are_refused() -> None:
    model, batch = CategoricalMADE.example()
    with pytest.raises(DataError, match="built for the categories 0 to 2, but the data go up to 3"):
        model.log_prob(batch.x + 1, context=batch.y)
