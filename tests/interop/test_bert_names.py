"""Weights of Hugging Face's BERT give its outputs and its loss, in double precision, and ours give ours there."""

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.interop.bert_names import load_bert, to_bert
from deepcanon.models.attention.bert import BERT

transformers = pytest.importorskip("transformers", reason="Hugging Face's models are not installed")

SIZES = {"vocab": 23, "length": 16, "mask_token": 0, "class_token": 1, "separator_token": 2}


def theirs() -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=23, max_position_embeddings=16, num_hidden_layers=3, num_attention_heads=4, hidden_size=32,
        intermediate_size=48, pad_token_id=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.BertForPreTraining(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases begin at zero, norms at one: no test of where they go
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def ours() -> BERT:
    return BERT(**SIZES, layers=3, heads=4, embedding=32, inner=48).double().eval()


def rows() -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randint(3, 23, (4, 12), generator=torch.Generator().manual_seed(1))
    segments = (torch.arange(12) > 5).long().expand(4, -1).contiguous()
    return x, torch.tensor([12, 7, 9, 1]), segments


def outputs(peer: Any, x: Tensor, lengths: Tensor, segments: Tensor) -> Any:
    inside = (torch.arange(12) < lengths[:, None]).long()
    return peer(input_ids=x, attention_mask=inside, token_type_ids=segments, output_hidden_states=True)


@torch.no_grad()
def test_outputs_are_the_same() -> None:
    peer, model = theirs(), ours()
    load_bert(model, peer.state_dict())
    x, lengths, segments = rows()
    wanted = outputs(peer, x, lengths, segments)
    tokens, labels = model(x, lengths, segments)
    inside = torch.arange(12) < lengths[:, None]
    torch.testing.assert_close(tokens[inside], wanted.prediction_logits[inside], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(labels, wanted.seq_relationship_logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(model.encode(x, lengths, segments).tokens[inside], wanted.hidden_states[-1][inside])
    assert wanted.prediction_logits.std() > 0.1


@torch.no_grad()
def test_ours_go_back() -> None:
    torch.manual_seed(1)
    peer, model = theirs(), ours()
    peer.load_state_dict(to_bert(model))
    x, lengths, segments = rows()
    wanted = outputs(peer, x, lengths, segments)
    torch.testing.assert_close(model(x, lengths, segments)[1], wanted.seq_relationship_logits)
    again = ours()
    load_bert(again, to_bert(model))
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())


def test_weights_of_another_size_are_refused() -> None:
    with pytest.raises(UsageError, match=r"also has blocks.2"):
        load_bert(BERT(**SIZES, layers=2, heads=4, embedding=32, inner=48), theirs().state_dict())
