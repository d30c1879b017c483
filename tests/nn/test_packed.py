"""Packed linear layers give what torch's give, and leave no trace."""

from typing import Any

import pytest
import torch
from torch import nn

from deepcanon.models.attention.gpt import GPT
from deepcanon.nn.packed import LEAST_SIZE, MOST_ROWS, STEPS, TiedEmbedding, can_pack, packed_weights

pytestmark = pytest.mark.skipif(not can_pack(), reason="needs oneDNN on a processor with AVX")
WIDTH = 256
ENOUGH = LEAST_SIZE // WIDTH


def layers() -> Any:
    torch.manual_seed(0)
    small = nn.Linear(WIDTH, 8)
    return nn.ModuleDict({"linear": nn.Linear(WIDTH, ENOUGH), "small": small, "tied": TiedEmbedding(ENOUGH + 3, WIDTH)})


@pytest.mark.parametrize("rows", [2, 5, MOST_ROWS])
def test_products_are_those_of_torch_up_to_the_order_of_the_sums(rows: int) -> None:
    model, x = layers(), torch.randn(rows, 1, WIDTH)
    x[0] = 1e4  # whatever the size of the inputs
    with torch.inference_mode(), packed_weights(model, STEPS):
        found = [model["linear"](x), model["tied"].logits(x)]
        again = [model["linear"](x), model["tied"].logits(x)]
    model.double().requires_grad_(False)
    exact = [
        nn.functional.linear(x.double(), model["linear"].weight, model["linear"].bias),
        nn.functional.linear(x.double(), model["tied"].weight),
    ]
    for one, other, true in zip(found, again, exact, strict=True):
        torch.testing.assert_close(one.double(), true, rtol=1e-5, atol=1e-6 * float(true.abs().max()))
        assert torch.equal(one, other)


def test_what_is_not_packed_is_computed_by_torch_itself() -> None:
    model, x = layers(), torch.randn(5, WIDTH)
    one, many = x[:1], torch.randn(MOST_ROWS + 1, WIDTH)
    with torch.no_grad():
        wanted = [model["linear"](each) for each in (x, one, many)]
    with packed_weights(model, STEPS):
        assert torch.equal(model["linear"](x), wanted[0]), "packed where gradients may be needed"
        assert model["linear"](x).requires_grad
        with torch.inference_mode():
            assert torch.equal(model["linear"](one), wanted[1])
            assert torch.equal(model["linear"](many), wanted[2])
            assert torch.equal(model["small"](x), nn.functional.linear(x, model["small"].weight, model["small"].bias))
            with torch.autocast("cpu", torch.bfloat16):
                assert model["linear"](x).dtype == torch.bfloat16
    with packed_weights(model.double(), STEPS), torch.inference_mode():
        assert model["linear"](x.double()).dtype == torch.float64


def test_nothing_is_left_afterwards_even_of_an_error() -> None:
    model = layers()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    with pytest.raises(RuntimeError, match="shapes"), torch.inference_mode(), packed_weights(model, STEPS):
        model["linear"](torch.randn(1, WIDTH + 1))
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == before
    with packed_weights(model, STEPS - 1):
        assert "forward" not in vars(model["linear"]), "too few steps pay for packing"


def test_new_weights_are_packed_anew() -> None:
    model, x = layers(), torch.randn(4, WIDTH)
    for _ in range(2):
        with torch.inference_mode(), packed_weights(model, STEPS):
            torch.testing.assert_close(model["linear"](x), x @ model["linear"].weight.T + model["linear"].bias)
        model["linear"].weight.data.mul_(2)


def test_a_search_finds_the_same_sequences_as_one_without_packed_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model, prompt = GPT(300, 32, layers=1, heads=4, embedding=WIDTH).eval(), torch.randint(300, (2, 3))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # so that the best sequences are far apart
    found = model.beam_search(prompt, STEPS, beams=3)
    monkeypatch.setattr("deepcanon.nn.packed.can_pack", lambda: False)
    wanted = model.beam_search(prompt, STEPS, beams=3)
    assert torch.equal(found.tokens, wanted.tokens)
    torch.testing.assert_close(found.log_prob, wanted.log_prob, rtol=1e-5, atol=1e-5)
    assert not torch.equal(found.log_prob, wanted.log_prob), "nothing was packed"
