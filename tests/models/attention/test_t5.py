"""T5 has the published sizes and is Hugging Face's on the same weights, both ways; it learns spans and pairs."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import deepcanon as dc
from deepcanon.core import UsageError
from deepcanon.interop.t5_names import load_t5, to_t5
from deepcanon.models.attention.t5 import T5


def count(model: T5) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_published_sizes() -> None:
    with torch.device("meta"):
        small = T5(32128, 32128, 0, 1, layers=6, heads=8, embedding=512, inner=2048)
        base = T5(32128, 32128, 0, 1, layers=12, heads=12, embedding=768, inner=3072)
    assert count(small) == 60_506_624
    assert count(base) == 222_903_552


def theirs() -> Any:
    transformers = pytest.importorskip("transformers", reason="needs transformers, of deepcanon[oracles]")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=23, d_model=32, d_kv=7, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=10,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.T5ForConditionalGeneration(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms begin at one: no test of where they go
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def ours() -> T5:
    sizes: dict[str, Any] = {
        "layers": 2,
        "heads": 4,
        "embedding": 32,
        "head_dim": 7,
        "inner": 48,
        "buckets": 8,
        "max_distance": 10,
    }
    return T5(23, 23, 0, 1, **sizes).double().eval()


def rows() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randint(2, 23, (4, length), generator=generator) for length in (20, 15))
    y[:, 0] = 0
    return x, torch.tensor([20, 7, 9, 1]), y


def logits(peer: Any, x: Tensor, lengths: Tensor, y: Tensor) -> Tensor:
    inside = (torch.arange(x.shape[1]) < lengths[:, None]).long()
    found: Tensor = peer(input_ids=x, attention_mask=inside, decoder_input_ids=y).logits
    return found


@torch.no_grad()
def test_outputs_are_those_of_hugging_face_both_ways() -> None:
    peer, model = theirs(), ours()
    load_t5(model, peer.state_dict())
    x, lengths, y = rows()
    wanted = logits(peer, x, lengths, y)
    assert wanted.std() > 0.1
    # Hugging Face takes the variance of its normalization in single precision
    torch.testing.assert_close(model(x, lengths, y), wanted, rtol=0, atol=1e-5)
    torch.manual_seed(7)
    model = ours()
    assert not torch.allclose(model(x, lengths, y), wanted, atol=1e-2)
    peer.load_state_dict(to_t5(model))
    torch.testing.assert_close(model(x, lengths, y), logits(peer, x, lengths, y), rtol=0, atol=1e-5)
    again = ours()
    load_t5(again, to_t5(model))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())


def test_gradients_are_those_of_hugging_face() -> None:
    peer, model = theirs(), ours()
    load_t5(model, peer.state_dict())
    x, lengths, y = rows()
    direction = torch.randn(4, 15, 23, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (logits(peer, x, lengths, y) * direction).sum().backward()
    (model(x, lengths, y) * direction).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.copy_(parameter.grad)
    for name, value in to_t5(model).items():
        if name in dict(peer.named_parameters()):
            wanted = peer.get_parameter(name).grad
            assert (value - wanted).abs().max() < 1e-5 * (1 + wanted.abs().max()), name


@torch.no_grad()
def test_cached_decoding_is_the_full_pass() -> None:
    torch.manual_seed(3)
    model, (x, lengths, y) = ours(), rows()
    bound, state = model.given((x, lengths)), None
    whole = model(x, lengths, y)
    for start, end in ((0, 1), (1, 4), (4, 5), (5, 15)):
        found, state = bound.read(y[:, start:end], state)
        torch.testing.assert_close(found, whole[:, start:end], rtol=1e-9, atol=1e-10)


def test_two_vocabularies_are_no_t5_of_hugging_face() -> None:
    model = T5(5, 4, 0, 1, layers=1, embedding=8)
    assert model.token_embedding.weight.shape == (9, 8)
    with pytest.raises(UsageError, match="has one vocabulary"):
        to_t5(model)
    with pytest.raises(UsageError, match="buckets are an even number"):
        T5(5, 5, 0, 1, buckets=5)
    with pytest.raises(UsageError, match=r"it has no encoder.blocks.1"):
        load_t5(T5(5, 5, 0, 1, layers=2), to_t5(T5(5, 5, 0, 1, layers=1)))


@pytest.mark.slow
def test_it_learns_corrupted_spans_of_a_text() -> None:
    data = dc.load_data("text:words:length=32:spans")
    torch.manual_seed(0)
    sizes: dict[str, Any] = dict(data.sizes)
    model = T5(**sizes, layers=1, embedding=32)
    before = dc.evaluate(model, data.split("valid"))["nll"]
    dc.fit(model, data, steps=60, batch_size=32, quiet=True, evaluate=False)
    assert dc.evaluate(model, data.split("valid"))["nll"] < before - 1.5
