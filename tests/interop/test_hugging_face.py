"""Weights of Hugging Face's GPT-2 give its logits, and ours give ours there."""

import warnings
from typing import Any

import pytest
import torch

from deepcanon.core import UsageError
from deepcanon.interop.hugging_face import load_gpt2, to_gpt2
from deepcanon.models.attention.gpt import GPT

transformers = pytest.importorskip("transformers", reason="Hugging Face's models are not installed")


def theirs() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=23, n_positions=16, n_layer=3, n_head=4, n_embd=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases begin at zero, norms at one: no test of where they go
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def ours() -> GPT:
    return GPT(vocab=23, length=16, layers=3, heads=4, embedding=32, activation="gelu_tanh").eval()


@torch.no_grad()
def test_logits_are_the_same() -> None:
    peer, model = theirs(), ours()
    load_gpt2(model, peer.state_dict())
    x = torch.randint(23, (4, 16), generator=torch.Generator().manual_seed(1))
    assert (model(x) - peer(x).logits).abs().max() < 1e-5
    assert peer(x).logits.std() > 0.1
    headless = ours()
    load_gpt2(headless, peer.transformer.state_dict())
    assert torch.equal(headless(x), model(x))


@torch.no_grad()
def test_ours_go_back() -> None:
    torch.manual_seed(1)
    peer, model = theirs(), ours()
    peer.load_state_dict(to_gpt2(model))
    x = torch.arange(16).unsqueeze(0)
    assert (model(x) - peer(x).logits).abs().max() < 1e-5


@torch.no_grad()
def test_both_generate_the_same_text() -> None:
    peer, model = theirs(), ours()
    load_gpt2(model, peer.state_dict())
    prompt = torch.tensor([[3, 1, 4], [1, 5, 9]])
    text = peer.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=13, min_new_tokens=13, do_sample=False,
        pad_token_id=0, eos_token_id=None,
    )  # fmt: skip
    assert torch.equal(model.generate(prompt, 13, temperature=0), text)


def test_weights_of_another_size_are_refused() -> None:
    weights = theirs().state_dict()
    with pytest.raises(UsageError, match=r"also has blocks.2.attention_norm.weight and 11 more"):
        load_gpt2(GPT(vocab=23, length=16, layers=2, heads=4, embedding=32, activation="gelu_tanh"), weights)
    with pytest.raises(UsageError, match=r"token_embedding.weight has the shape \(23, 32\) in the file and \(24, 32\)"):
        load_gpt2(GPT(vocab=24, length=16, layers=3, heads=4, embedding=32, activation="gelu_tanh"), weights)
    with pytest.raises(UsageError, match=r"it has no blocks\.3"):
        load_gpt2(GPT(vocab=23, length=16, layers=4, heads=4, embedding=32, activation="gelu_tanh"), weights)
    with pytest.raises(UsageError, match="make the model with activation='gelu_tanh'"):
        load_gpt2(GPT(vocab=23, length=16, layers=3, heads=4, embedding=32), weights)


@pytest.mark.parametrize("options", [{"positions": "rotary"}, {"attention": "linear"}], ids=str)
def test_a_model_that_is_no_gpt2_is_refused_both_ways(options: dict[str, Any]) -> None:
    model = GPT(5, 4, 1, 1, 2, activation="gelu_tanh", **options)
    with pytest.raises(UsageError, match="learned positions and softmax attention"):
        to_gpt2(model)
    with pytest.raises(UsageError, match="learned positions and softmax attention"):
        load_gpt2(model, {})
