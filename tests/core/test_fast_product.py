"""Products by the faster library are those of torch, with their gradients, and only in training."""

import contextlib
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import deepcanon as dc
from deepcanon.core import Terms
from deepcanon.core.fast_product import LEAST, NARROWEST, fast_linear_layers, linear, multiplies_faster, product
from deepcanon.nn.masked import MaskedLinear
from deepcanon.train import Observer, Trainer

ROWS, INPUTS, OUTPUTS = 96, 130, 170
needs_faster = pytest.mark.skipif(not multiplies_faster(), reason="torch multiplies as fast as oneDNN here")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the products for which the other library is asked, by which everything is multiplied here."""
    shapes: list[tuple[int, ...]] = []

    def multiply(a: Tensor, b: Tensor, bias: Tensor | None, *_: Any) -> Tensor:
        shapes.append((*a.shape, b.shape[0]))
        return F.linear(a, b, bias)

    class Operations:
        class _linear_pointwise:
            default = staticmethod(multiply)

    monkeypatch.setattr(torch.ops, "mkldnn", Operations)
    monkeypatch.setattr("deepcanon.core.fast_product.multiplies_faster", lambda: True)
    return shapes


def close(found: Tensor, exact: Tensor) -> None:
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-6 * exact.abs().max().item())


@needs_faster
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(ROWS, INPUTS), (4, 24, INPUTS)])
def test_values_and_gradients_are_those_of_the_plain_formula(shape: tuple[int, ...], biased: bool) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(shape, requires_grad=True), torch.randn(OUTPUTS, INPUTS, requires_grad=True)
    inputs = [x, weight, *([torch.randn(OUTPUTS, requires_grad=True)] if biased else [])]
    found = linear(*inputs)
    assert "_Linear" in type(found.grad_fn).__name__
    exact_inputs = [each.detach().double().requires_grad_() for each in inputs]
    exact = F.linear(*exact_inputs)
    close(found, exact)
    along = torch.randn_like(found)
    gradients, wanted = (
        torch.autograd.grad(y, given, along.to(y.dtype), create_graph=True)
        for y, given in ((found, inputs), (exact, exact_inputs))
    )
    for one, true in zip(gradients, wanted, strict=True):
        close(one, true)
    twice, wanted = (
        torch.autograd.grad(torch.cat([each.flatten() for each in first]).pow(3).sum(), given)
        for first, given in ((gradients[:2], inputs[:2]), (wanted[:2], exact_inputs[:2]))
    )
    for one, true in zip(twice, wanted, strict=True):
        close(one, true)


@needs_faster
def test_products_of_transposed_matrices_are_the_same_wherever_they_lie() -> None:
    torch.manual_seed(0)
    a, b, bias = torch.randn(INPUTS, ROWS).T, torch.randn(OUTPUTS, INPUTS).T, torch.randn(OUTPUTS)
    with torch.no_grad():
        found = product(a, b, bias)
        close(found, torch.addmm(bias.double(), a.double(), b.double()))
        for shift in range(1, 8):
            moved = torch.empty(INPUTS * ROWS + shift)[shift:].view(INPUTS, ROWS).copy_(a.T).T
            assert torch.equal(product(moved, b, bias), found)


def test_gradients_take_only_the_products_that_are_needed(asked: list[tuple[int, ...]]) -> None:
    x, weight = torch.randn(ROWS, INPUTS), torch.randn(OUTPUTS, INPUTS, requires_grad=True)
    linear(x, weight).sum().backward()
    assert asked == [(ROWS, INPUTS, OUTPUTS), (OUTPUTS, ROWS, INPUTS)]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # as torch makes duals
def test_what_does_not_pay_or_is_watched_is_left_to_torch(asked: list[tuple[int, ...]]) -> None:
    x, weight = torch.randn(ROWS, INPUTS), torch.randn(OUTPUTS, INPUTS)
    narrow = torch.randn(LEAST, NARROWEST - 1)
    with torch.no_grad():
        product(x[:8], weight.T)
        product(narrow, narrow[:NARROWEST].T)
        product(x.double(), weight.T.double())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert product(x, weight.T).dtype == torch.bfloat16
        with pytest.raises(RuntimeError, match="shapes"):
            product(x, weight)
    product(x.requires_grad_(), weight.T).sum().backward()
    torch.func.grad(lambda part: linear(x, part).sum())(weight)
    with torch.autograd.forward_ad.dual_level():
        linear(torch.autograd.forward_ad.make_dual(x.detach(), x.detach()), weight)
    assert asked == []
    layer = MaskedLinear(torch.ones(OUTPUTS, INPUTS, dtype=torch.bool))
    for strict in (False, True):
        nodes = torch.export.export(layer, (x.detach(),), strict=strict).graph.nodes
        assert [node.target for node in nodes if node.op == "call_function"][-1] is torch.ops.aten.linear.default


def test_layers_are_fast_in_training_alone_and_nothing_is_left_afterwards(asked: list[tuple[int, ...]]) -> None:
    model: Any = nn.Sequential(nn.Linear(INPUTS, OUTPUTS), nn.ReLU(), nn.Linear(OUTPUTS, 2))
    x = torch.randn(ROWS, INPUTS)
    before = [dict(vars(module)) for module in model.modules()]
    with fast_linear_layers(model):
        model(x)
        assert asked.pop() == (ROWS, INPUTS, OUTPUTS)
        model.eval()(x)
        with torch.no_grad():
            model.train()(x)
        assert asked == []
        for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            with torch.no_grad():
                twin[0].weight.zero_()
            assert torch.equal(twin(x)[0], twin(-x)[0]), "a copy has weights of its own"
    model.train()
    assert [dict(vars(module)) for module in model.modules()] == before


def trained(folder: Path, steps: int) -> None:
    """A run of a wide model that is broken off after so many steps of eight."""
    model = dc.find("autoencoder")(features=INPUTS, hidden=(OUTPUTS,), latent=2)
    data = dc.from_tensors(torch.randn(2 * ROWS, INPUTS, generator=torch.Generator().manual_seed(0)))

    class Stop(Observer):
        def step(self, trainer: Trainer, terms: Terms) -> None:
            if trainer.step == steps < 8:
                raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        dc.fit(model, data, out=folder, steps=8, batch_size=ROWS, checkpoint_every=3, quiet=True, observers=[Stop()])
    if steps < 8:
        dc.resume(folder, data, quiet=True)


def test_a_resumed_training_has_the_bits_of_an_unbroken_one(tmp_path: Path) -> None:
    for steps in (4, 8):
        torch.manual_seed(0)
        trained(tmp_path / f"{steps}", steps)
    weights = [(tmp_path / f"{steps}" / "model.safetensors").read_bytes() for steps in (4, 8)]
    assert weights[0] == weights[1]


def test_the_trainer_multiplies_by_the_faster_library(asked: list[tuple[int, ...]]) -> None:
    model = dc.find("autoencoder")(features=INPUTS, hidden=(OUTPUTS,), latent=2)
    data = dc.from_tensors(torch.randn(ROWS, INPUTS))
    dc.fit(model, data, steps=1, batch_size=ROWS, quiet=True)
    assert (ROWS, INPUTS, OUTPUTS) in asked
    assert (OUTPUTS, ROWS, INPUTS) in asked
