"""Conditioning has one meaning: a context given with a call and one that is bound are the same."""

import inspect
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from deepcanon import laws
from deepcanon.catalogue import find
from deepcanon.core import (
    METHODS,
    Batch,
    ClassConditional,
    Conditional,
    Context,
    DataError,
    Density,
    Labeled,
    UsageError,
    conditioned,
    given_batch,
    methods_of,
)
from deepcanon.core.toy import Toy
from deepcanon.laws.play import train_briefly


class ShiftedBy(Conditional, Density[Labeled]):
    """A Gaussian around a pair of contexts: covariates (B, 2) and a scale (B, 1)."""

    conditioned_on = "covariates and a scale"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(2))

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        return cls(), Labeled(torch.randn(6, 2), torch.randn(6, 2))

    def context_of(self, batch: Labeled) -> Context:
        return batch.y, torch.ones(len(batch), 1)

    def _check_context(self, context: Context) -> None:
        if isinstance(context, Tensor) or len(context) != 2:
            raise DataError("the context is a pair")

    def _normal(self, n: int) -> torch.distributions.Normal:
        mean, scale = self._context(n)
        return torch.distributions.Normal(mean @ self.weight, scale)

    def _log_prob(self, x: Tensor) -> Tensor:
        log_prob: Tensor = self._normal(len(x)).log_prob(x).sum(-1)
        return log_prob

    def _sample(self, n: int, generator: Generator | None) -> Tensor:
        normal = self._normal(n)
        return normal.mean + normal.stddev * torch.randn(n, 2, generator=generator)


class OfClasses(ClassConditional, Toy):
    """A Gaussian that is moved by its class."""

    classes = 3

    def _log_prob(self, x: Tensor) -> Tensor:
        context = self._context(len(x))
        assert isinstance(context, Tensor)
        return super()._log_prob(x - context.unsqueeze(1))


def test_a_context_with_the_call_is_the_bound_one() -> None:
    model, batch = ShiftedBy.example()
    context = model.context_of(batch)
    wanted = model.given(context).log_prob(batch.x)
    assert torch.equal(model.log_prob(batch.x, context=context), wanted)
    assert torch.equal(given_batch(model, batch).log_prob(batch.x), wanted)
    assert torch.equal(model.metrics(batch)["nll"], -wanted.mean())
    assert torch.equal(model.loss(batch)["nll"], -wanted.mean())
    drawn = model.sample(6, context=context, generator=Generator().manual_seed(0))
    assert torch.equal(drawn, model.given(context).sample(6, generator=Generator().manual_seed(0)))


def test_a_view_shares_the_weights_and_leaves_the_model_as_it_was() -> None:
    model, batch = ShiftedBy.example()
    view = given_batch(model, batch)
    assert view.weight is model.weight
    assert view is not model
    assert model.context is None


def test_a_score_is_taken_given_the_context() -> None:
    model, batch = OfClasses(2), Labeled(torch.randn(4, 2), torch.tensor([0, 1, 2, 0]))
    moved = model.given(batch.y).log_prob(batch.x) - model.given(0).log_prob(batch.x)
    assert moved[0] == moved[3] == 0
    assert moved[1] != 0


def test_one_row_serves_all_examples_and_other_numbers_are_refused() -> None:
    model, batch = ShiftedBy.example()
    one = (torch.zeros(1, 2), torch.ones(1, 1))
    all_of_them = (torch.zeros(6, 2), torch.ones(6, 1))
    assert torch.equal(model.log_prob(batch.x, context=one), model.log_prob(batch.x, context=all_of_them))
    with pytest.raises(DataError, match="one row for each example, or one for all: got 4 rows for 6 examples"):
        model.log_prob(batch.x, context=(torch.zeros(4, 2), torch.ones(4, 1)))
    with pytest.raises(DataError, match="got 3 rows for 2 examples"):
        model.log_prob(batch.x[:2], context=(torch.zeros(3, 2), torch.ones(3, 1)))


def test_a_missing_context_is_asked_for_in_words() -> None:
    model, batch = ShiftedBy.example()
    with pytest.raises(UsageError, match="is conditional: give covariates and a scale as context="):
        model.log_prob(batch.x)
    with pytest.raises(UsageError, match="or bind it by given"):
        model.sample(3)


def test_a_context_of_another_kind_is_refused() -> None:
    model = OfClasses(2)
    with pytest.raises(DataError, match="has the classes 0 to 2, got the class 3"):
        model.given(3)
    with pytest.raises(UsageError, match="conditioned on classes"):
        model.given((torch.zeros(1, dtype=torch.long), torch.zeros(1)))
    with pytest.raises(UsageError, match="is not a conditional model"):
        Toy(2).log_prob(torch.zeros(1, 2), context=torch.zeros(1))


def test_what_is_not_conditional_stands_to_a_batch_as_it_is() -> None:
    model = Toy(2)
    assert given_batch(model, Batch(torch.zeros(3, 2))) is model


def test_a_model_that_means_nothing_without_a_context_gets_that_of_a_batch_and_others_stay_as_they_are() -> None:
    model, batch = ShiftedBy.example()
    here = conditioned(model, batch)
    assert torch.equal(here.log_prob(batch.x), given_batch(model, batch).log_prob(batch.x))
    many = conditioned(model, batch, 8)
    assert torch.equal(many.context[0][6:], batch.y[:2])
    toy, _ = Toy.example()
    assert conditioned(toy, batch) is toy


@pytest.mark.parametrize("name", ["conditional_vae", "guided_ddpm", "conditional_pixelcnn"])
def test_every_method_takes_its_context_with_the_call(name: str) -> None:
    model: Any
    model, batch = find(name).example()
    train_briefly(model, batch)  # at first, classes make no difference
    model.eval()
    view = model.given(batch.y)
    asked = [method for method in methods_of(model) if method != "sample"]
    code = view.encode(batch.x).mean if "encode" in asked else batch.x
    for method in asked:
        x = code if method == "decode" else batch.x
        one, other = _numbers(view, method, x), _numbers(model, method, x, context=batch.y)
        assert torch.equal(one, other), method
        assert not torch.equal(one, _numbers(model, method, x, context=batch.y.roll(1))), method
        assert "context" in inspect.signature(getattr(model, method)).parameters


def _numbers(model: Any, method: str, x: Tensor, **options: Any) -> Tensor:
    torch.manual_seed(0)
    with torch.no_grad():
        output = getattr(model, method)(x, **options)
    return output if isinstance(output, Tensor) else output.mean


def test_an_inherited_method_without_a_context_of_its_own_gets_one() -> None:
    class Encoder(OfClasses):
        """An encoder that knows nothing of contexts but how to read the bound one."""

        def encode(self, x: Tensor) -> Tensor:
            context = self._context(len(x))
            assert isinstance(context, Tensor)
            return x + context.unsqueeze(1)

    model: Any = Encoder(2)
    assert torch.equal(model.encode(torch.zeros(2, 2), context=torch.tensor([1, 2]))[:, 0], torch.tensor([1.0, 2.0]))
    assert torch.equal(model.encode(x=torch.zeros(3, 2), context=2), torch.full((3, 2), 2.0))
    with pytest.raises(DataError, match="got 2 rows for 3 examples"):
        model.encode(torch.zeros(3, 2), context=torch.tensor([1, 2]))
    with pytest.raises(UsageError, match="is conditional: give classes as context="):
        model.encode(torch.zeros(3, 2))
    assert "translate" in METHODS


@pytest.mark.parametrize(
    ("context", "shown"), [(True, "True"), ([1], "list"), (1.0, "1.0"), ("1", "'1'"), (np.array([1]), "ndarray")]
)
def test_what_is_no_context_is_refused_in_words(context: Any, shown: str) -> None:
    with pytest.raises(UsageError, match=f"a tensor, a tuple of tensors, or a whole number for one class; got {shown}"):
        OfClasses(2).given(context)
    with pytest.raises(UsageError, match="OfClasses is conditioned on classes"):
        OfClasses(2).log_prob(torch.zeros(1, 2), context=context)


def test_whole_numbers_of_numpy_name_a_class_and_truth_values_do_not() -> None:
    model: Any = OfClasses(2)
    assert torch.equal(model.given(np.int64(1)).log_prob(torch.ones(2, 2)), model.given(1).log_prob(torch.ones(2, 2)))
    assert torch.equal(model.log_prob(torch.ones(2, 2), context=np.int64(1)), model.given(1).log_prob(torch.ones(2, 2)))
    with pytest.raises(DataError, match=r"classes as whole numbers, .*; got truth values"):
        model.given(torch.tensor([True]))


def test_a_bound_view_stays_bound_whatever_the_batch() -> None:
    model, batch = OfClasses(2), Labeled(torch.randn(4, 2), torch.tensor([0, 1, 2, 0]))
    view = model.given(1)
    assert given_batch(view, batch) is view
    assert torch.equal(view.loss(batch)["nll"], -view.log_prob(batch.x).mean())
    assert not torch.equal(view.loss(batch)["nll"], model.loss(batch)["nll"])


def test_metrics_of_a_view_with_a_row_for_each_example_are_those_of_the_batch() -> None:
    model: Any
    model, batch = find("conditional_vae").example()
    torch.manual_seed(0)
    wanted = model.metrics(batch)
    torch.manual_seed(0)
    found = model.given(batch.y).metrics(batch)
    assert wanted.keys() == found.keys() == {"nll", "nll_error"}
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_a_bound_context_moves_with_the_model() -> None:
    model, batch = ShiftedBy.example()
    view = model.given(model.context_of(batch)).double()
    assert isinstance(view.context, tuple)
    assert all(part.dtype == torch.float64 for part in view.context)
    moved: Any = view.to("meta")
    assert all(part.is_meta for part in moved.context)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "binding"),
    [("guided_ddpm", {"guidance": 2.0}), ("conditional_vae", {})],
)
def test_laws_treat_the_bound_form_as_a_plain_model(name: str, binding: dict[str, float]) -> None:
    torch.manual_seed(0)
    model: Any
    model, batch = find(name).example()
    found = laws.check((model.given(1, **binding), batch), "contract")
    assert [outcome for outcome in found if not outcome.holds] == []
    assert {"state round trip", "works on the meta device"} < {outcome.law for outcome in found}
