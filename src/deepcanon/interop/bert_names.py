"""Weights of BERT under the names of Hugging Face's transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from deepcanon.interop.weights import give_weights
from deepcanon.models.attention.bert import BERT

OUTER = {
    "bert.embeddings.word_embeddings": "token_embedding",
    "bert.embeddings.position_embeddings": "position_embedding",
    "bert.embeddings.token_type_embeddings": "segment_embedding",
    "bert.embeddings.LayerNorm": "norm",
    "bert.pooler.dense": "pooler",
    "cls.predictions.transform.dense": "mask_projection",
    "cls.predictions.transform.LayerNorm": "mask_norm",
    "cls.seq_relationship": "next_head",
}
"""The parts before and after the blocks: Hugging Face's names, and ours."""

INNER = {
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "up_projection",
    "output.dense": "down_projection",
    "output.LayerNorm": "mlp_norm",
}
"""The parts of a block."""

APART = ("attention.self.query", "attention.self.key", "attention.self.value")
"""The projections that Hugging Face keeps apart and that are one matrix here, in their order."""

BIAS = "cls.predictions.bias"
TWICE = ("bert.embeddings.position_ids", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias")
"""Positions that old files hold, and the decoder: its matrix is the embedding, and its bias has two names."""

BLOCK = re.compile(r"bert\.encoder\.layer\.(?P<number>\d+)\.(?P<part>.+)\.(?P<kind>weight|bias)")


def load_bert(model: BERT, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a ``BertForPreTraining`` by their names in Hugging Face's transformers into the model.

    >>> load_bert(BERT(5, 4, 0, 1, 2, layers=1), {})
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the file is not a BERT of this size: it has no mask_bias and 25 more
    """
    give_weights(model, renamed(weights), "BERT")


def renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under our names; a tensor that is not part of a BERT keeps its name.

    >>> list(renamed({"bert.pooler.dense.bias": torch.zeros(2)}))
    ['pooler.bias']
    """
    found: dict[str, Tensor] = {}
    thirds: dict[str, dict[int, Tensor]] = {}
    for name, tensor in weights.items():
        block = BLOCK.fullmatch(name)
        if name in TWICE:
            continue
        if block is None:
            part, _, kind = name.rpartition(".")
            found["mask_bias" if name == BIAS else f"{OUTER[part]}.{kind}" if part in OUTER else name] = tensor
        elif block["part"] in APART:
            ours = f"blocks.{block['number']}.attention.projection.{block['kind']}"
            thirds.setdefault(ours, {})[APART.index(block["part"])] = tensor
        else:
            found[f"blocks.{block['number']}.{INNER.get(block['part'], block['part'])}.{block['kind']}"] = tensor
    return found | {name: torch.cat([parts[i] for i in sorted(parts)]) for name, parts in thirds.items()}


def to_bert(model: BERT) -> dict[str, Tensor]:
    """The model's weights as Hugging Face's ``BertForPreTraining`` loads them.

    >>> sorted(to_bert(BERT(5, 4, 0, 1, 2, layers=1)))[:2]
    ['bert.embeddings.LayerNorm.bias', 'bert.embeddings.LayerNorm.weight']
    """
    outer, inner = ({ours: theirs for theirs, ours in names.items()} for names in (OUTER, INNER))
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        part, _, kind = name.rpartition(".")
        if name == "mask_bias":
            found |= {BIAS: tensor, "cls.predictions.decoder.bias": tensor}
        elif not name.startswith("blocks."):
            found[f"{outer[part]}.{kind}"] = tensor
        else:
            _, number, rest = part.split(".", 2)
            before = f"bert.encoder.layer.{number}."
            if rest == "attention.projection":
                found |= {f"{before}{own}.{kind}": third for own, third in zip(APART, tensor.chunk(3), strict=True)}
            else:
                found[f"{before}{inner[rest]}.{kind}"] = tensor
    return {**found, "cls.predictions.decoder.weight": model.token_embedding.weight.detach()}
