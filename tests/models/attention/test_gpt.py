"""GPT is GPT-2 in size and initial weights, is causal, and decodes with a key-value cache as without one."""

import importlib
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from deepcanon.core import Sequences, UsageError
from deepcanon.models.attention.gpt import GPT

nano: Any = importlib.import_module("benchmarks.plain_gpt")


def small(length: int = 8) -> GPT:
    torch.manual_seed(0)
    model = GPT(vocab=11, length=length, layers=2, heads=2, embedding=16).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def tokens(rows: int, length: int) -> Tensor:
    return torch.randint(11, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("layers", "heads", "embedding", "parameters"),
    [
        (12, 12, 768, 124_439_808),
        (24, 16, 1024, 354_823_168),
        (36, 20, 1280, 774_030_080),
        (48, 25, 1600, 1_557_611_200),
    ],
)
def test_the_sizes_of_gpt2(layers: int, heads: int, embedding: int, parameters: int) -> None:
    with torch.device("meta"):
        model = GPT(vocab=50257, length=1024, layers=layers, heads=heads, embedding=embedding)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_it_is_initialized_as_gpt2() -> None:
    torch.manual_seed(0)
    model = GPT(vocab=300, length=64, layers=8, heads=4, embedding=128)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert torch.equal(parameter, torch.full_like(parameter, float("weight" in name))), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:
            adds = "attention.output" in name or "down_projection" in name
            assert parameter.detach().std().item() == pytest.approx(0.02 / math.sqrt(16) if adds else 0.02, rel=0.05), (
                name
            )
    x = torch.randint(300, (8, 65))
    assert model.loss(Sequences(x, torch.full((8,), 65)))["nll"].item() == pytest.approx(math.log(300), abs=0.1)


@torch.no_grad()
def test_a_token_attends_to_the_past_only_and_all_of_it() -> None:
    model, x = small(), tokens(1, 8)
    whole = model(x)
    for position in range(8):
        other = x.clone()
        other[0, position] = (other[0, position] + 1) % 11
        moved = (model(other) != whole).any(-1)[0]
        assert not moved[:position].any()
        assert moved[position:].all()


@pytest.mark.parametrize("length", [1, 2, 7, 8])
@torch.no_grad()
def test_a_long_text_is_read_with_a_cache_as_without_one(length: int) -> None:
    model, x = small(length), tokens(3, 30)
    whole, state = model(x), None
    assert whole.shape == (3, 30, 11)
    for position, size in [(0, 3), (3, 1), (4, 1), (5, 4), *((position, 1) for position in range(9, 30))]:
        logits, state = model.read(x[:, position : position + size], state)
        torch.testing.assert_close(logits[:, -1], whole[:, position + size - 1], rtol=1e-10, atol=1e-12)


@torch.no_grad()
def test_windows_of_a_long_text_overlap_by_half() -> None:
    model, x = small(8), tokens(1, 21)
    whole = model(x)
    for position, start in [(7, 0), (8, 4), (11, 4), (12, 8), (15, 8), (16, 12), (19, 12), (20, 16)]:
        torch.testing.assert_close(whole[:, position], model(x[:, start : position + 1])[:, -1])


@torch.no_grad()
def test_generated_text_is_the_likeliest_of_each_step() -> None:
    model, text = small(), tokens(2, 3)
    found = model.generate(text, 20, temperature=0)
    for _ in range(20):
        text = torch.cat([text, model(text)[:, -1].argmax(-1, keepdim=True)], 1)
    assert torch.equal(found, text)
    assert torch.equal(model.generate(text[:1, :3], 20, temperature=0), found[:1])
    drawn = [model.generate(tokens(2, 3), 20, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


@torch.no_grad()
def test_padding_changes_nothing() -> None:
    model, x = small(), tokens(3, 9)
    lengths = torch.tensor([9, 4, 6])
    together = model.loss(Sequences(x, lengths))["nll"]
    alone = [model.loss(Sequences(x[i : i + 1, :n], torch.tensor([n])))["nll"] for i, n in enumerate(lengths.tolist())]
    torch.testing.assert_close(together, (torch.stack(alone) * (lengths - 1)).sum() / (lengths - 1).sum())
    inside = torch.arange(9) < lengths[:, None]
    assert torch.equal(model.loss(Sequences(torch.where(inside, x, 10), lengths))["nll"], together)


@torch.no_grad()
def test_log_prob_is_the_sum_over_the_tokens_after_the_first() -> None:
    model, x, lengths = small(), tokens(3, 13), torch.tensor([13, 2, 7])
    for row, size in enumerate(lengths.tolist()):
        shares = [model(x[row : row + 1, :t])[0, -1].softmax(-1)[x[row, t]] for t in range(1, size)]
        wanted = torch.stack(shares).log().sum()
        torch.testing.assert_close(model.log_prob(x, lengths=lengths)[row], wanted)
        torch.testing.assert_close(model.log_prob(x[row : row + 1, :size])[0], wanted)


@torch.no_grad()
def test_attention_maps_are_those_by_which_it_reads() -> None:
    model, x = small(), tokens(2, 6)
    maps = model.attention_maps(x)
    assert maps.shape == (2, 2, 2, 6, 6)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 2, 2, 6).double())
    assert not maps.triu(1).any()
    # the first block again, with its attention put together from the map
    block: Any = model.blocks[0]
    h = model.token_embedding(x) + model.position_embedding.weight[:6]
    values = block.attention.projection(block.attention_norm(h)).chunk(3, -1)[2].unflatten(-1, (2, 8)).transpose(1, 2)
    seen = block.attention.output((maps[0] @ values).transpose(1, 2).flatten(2))
    h = h + seen
    h = h + block.down_projection(torch.nn.functional.gelu(block.up_projection(block.mlp_norm(h))))
    torch.testing.assert_close(h, block(model.token_embedding(x) + model.position_embedding.weight[:6], causal=True))


def test_dropout_acts_in_training_only_and_nothing_else_differs() -> None:
    torch.manual_seed(0)
    model = GPT(vocab=11, length=8, layers=1, heads=2, embedding=16, dropout=0.5)
    x = tokens(2, 8)
    assert not torch.equal(model(x), model(x))
    model.eval()
    plain = GPT(vocab=11, length=8, layers=1, heads=2, embedding=16)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(model(x), plain(x))


@torch.no_grad()
def test_either_gelu_is_that_of_torch() -> None:
    torch.manual_seed(0)
    h = torch.randn(2, 3, 16)
    for activation, approximate in (("gelu", "none"), ("gelu_tanh", "tanh")):
        model = GPT(vocab=11, length=8, layers=1, heads=2, embedding=16, activation=activation)  # type: ignore[arg-type]
        block: Any = model.blocks[0]
        wanted = block.down_projection(torch.nn.functional.gelu(block.up_projection(h), approximate=approximate))
        assert torch.equal(block.mlp(h), wanted)
    with pytest.raises(UsageError, match="activation must be one of"):
        GPT(vocab=5, length=4, activation="relu")  # type: ignore[arg-type]


def test_beams_read_on_from_the_rows_that_are_kept() -> None:
    """A beam search as wide as there are texts finds the most probable one of all, by enumeration."""
    model = small(length=3)
    prompt = tokens(2, 2)
    found, lengths = model.beam_search(prompt, 2, beams=11**2).best()
    texts = torch.cartesian_prod(torch.arange(11), torch.arange(11))
    for row in range(2):
        whole = torch.cat([prompt[row].expand(121, 2), texts], 1)
        best = whole[model.step_log_probs(whole)[:, 2:].sum(1).argmax()]
        assert torch.equal(found[row], best)
    assert lengths.tolist() == [4, 4]


def test_it_learns_a_text_that_repeats() -> None:
    torch.manual_seed(0)
    model = GPT(vocab=11, length=16, layers=1, heads=2, embedding=32)
    x = (torch.arange(17) * 3 + torch.arange(11)[:, None]) % 11
    batch = Sequences(x, torch.full((11,), 17))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        model.loss(batch)["nll"].backward()
        optimizer.step()
    assert model.loss(batch)["nll"].item() < 0.02
    assert model.generate(torch.tensor([[0, 3]]), 30, temperature=0).tolist() == [[3 * i % 11 for i in range(32)]]


def test_sizes_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="must be a multiple of heads"):
        GPT(vocab=5, length=4, heads=3, embedding=8)
    with pytest.raises(UsageError, match="length must be at least 1"):
        GPT(vocab=5, length=0)
    with pytest.raises(UsageError, match="dropout is the probability"):
        GPT(vocab=5, length=4, dropout=1.0)


def test_the_tied_embedding_gets_the_gradient_of_its_input_and_of_its_output() -> None:
    torch.manual_seed(0)
    model, batch = GPT.example()
    model.double()
    model.loss(batch)["nll"].backward()
    tied = model.token_embedding.weight.grad
    apart = torch.nn.Parameter(model.token_embedding.weight.detach().clone())
    model.zero_grad()
    model._output_logits = lambda h: torch.nn.functional.linear(model.norm(h), apart)  # type: ignore[method-assign]
    model.loss(batch)["nll"].backward()
    read = model.token_embedding.weight.grad
    assert tied is not None
    assert read is not None
    assert apart.grad is not None
    assert min(float(read.norm()), float(apart.grad.norm())) > 1e-3
    torch.testing.assert_close(read + apart.grad, tied, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("kind", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_loss_and_gradient_are_those_of_nanogpt(kind: torch.dtype, tolerance: float) -> None:
    ours = small().to(kind)
    plain = nano.plain(ours)
    x = tokens(3, 9)
    loss = ours.loss(Sequences(x, torch.full((3,), 9)))["nll"]
    wanted = plain(x[:, :-1], x[:, 1:])
    torch.testing.assert_close(loss, wanted, rtol=tolerance, atol=tolerance)
    loss.backward()
    wanted.backward()
    with torch.no_grad():
        for parameter in ours.parameters():
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)
    found, theirs = nano.plain_names(ours), dict(plain.named_parameters())
    assert {name: found[name].shape for name in theirs} == {name: value.shape for name, value in theirs.items()}
    assert sum(value.numel() for value in theirs.values()) == sum(value.numel() for value in ours.parameters())
    for name, value in theirs.items():
        torch.testing.assert_close(found[name], value.grad, rtol=tolerance, atol=tolerance)


class Kernels(TorchDispatchMode):
    """A count of the kernels that run."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, kernel: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count[kernel.overloadpacket.__name__] += 1
        return kernel(*args, **(kwargs or {}))


def kernels_of(loss: Callable[[], Tensor]) -> Counter[str]:
    """How often each kernel runs in a loss and its gradient."""
    kernels = Kernels()
    with kernels:
        loss().backward()
    return kernels.count


def test_a_block_runs_the_kernels_of_nanogpt_and_one_look_for_nan() -> None:
    x = tokens(3, 9)
    batch = Sequences(x, torch.full((3,), 9))
    one, two = (GPT(vocab=11, length=8, layers=layers, heads=2, embedding=16) for layers in (1, 2))
    ours, more = kernels_of(lambda: one.loss(batch)["nll"]), kernels_of(lambda: two.loss(batch)["nll"])
    theirs, theirs_more = (kernels_of(partial(nano.plain(model), x[:, :-1], x[:, 1:])) for model in (one, two))
    assert (more - ours)["addmm"] == 4
    assert (more - ours) - (theirs_more - theirs) == Counter(detach=1, sum=1, _local_scalar_dense=1)
    assert not {"masked_fill", "where"} & ours.keys()  # rows of full length need no mask of the padding


@pytest.mark.parametrize(
    "options",
    [
        {"positions": "sinusoidal"},
        {"positions": "rotary"},
        {"positions": "relative"},
        {"positions": "none"},
        {"attention": "linear"},
        {"attention": "local", "reach": 3},
        {"attention": "local", "reach": 2, "positions": "rotary"},
    ],
    ids=str,
)
@torch.no_grad()
def test_other_positions_and_attention_decode_with_a_cache_as_without_one(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = GPT(vocab=11, length=8, layers=2, heads=2, embedding=16, **options).double().eval()
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn_like(parameter))
    x = tokens(3, 30)
    whole, state = model(x), None
    for position, size in [(0, 3), (3, 1), (4, 1), (5, 4), *((position, 1) for position in range(9, 30))]:
        logits, state = model.read(x[:, position : position + size], state)
        torch.testing.assert_close(logits[:, -1], whole[:, position + size - 1], rtol=1e-10, atol=1e-12)
    other = x[:, [1, 0, *range(2, 8)]]
    assert (model(other)[:, 2] - model(x[:, :8])[:, 2]).abs().max() > 1e-6  # it sees the order of the two before
    maps = model.attention_maps(x[:, :8])
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 3, 2, 8).double())
    assert not maps.triu(1).any()
    beams = model.beam_search(x[:, :2], 3, beams=4).best()[0]
    assert beams.shape == (3, 5)


def test_options_that_do_not_go_together_are_refused() -> None:
    for options, match in (
        ({"attention": "linear", "positions": "rotary"}, "no rotary ones"),
        ({"attention": "linear", "positions": "relative"}, "has no scores"),
        ({"attention": "local"}, "has a reach"),
        ({"reach": 3}, "has a reach"),
        ({"positions": "absolute"}, "positions must be one of"),
        ({"attention": "sparse"}, "attention must be one of"),
    ):
        with pytest.raises(UsageError, match=match):
            GPT(vocab=5, length=4, **options)
