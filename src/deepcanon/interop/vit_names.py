"""Weights of vision transformers under the names of timm, and those of Hugging Face's transformers, old and new."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from deepcanon.interop.weights import give_weights
from deepcanon.models.attention.vit import ViT

OUTER = {
    "cls_token": "class_token",
    "pos_embed": "position_embedding",
    "patch_embed.proj": "patch_embedding",
    "embeddings.cls_token": "class_token",
    "embeddings.position_embeddings": "position_embedding",
    "embeddings.patch_embeddings.projection": "patch_embedding",
    "layernorm": "norm",
    "classifier": "head",
}
"""The parts before and after the blocks, where their names differ from ours: timm's, then Hugging Face's."""

INNER = {
    "norm1": "attention_norm",
    "attn.qkv": "attention.projection",
    "attn.proj": "attention.output",
    "norm2": "mlp_norm",
    "mlp.fc1": "up_projection",
    "mlp.fc2": "down_projection",
    "layernorm_before": "attention_norm",
    "attention.o_proj": "attention.output",
    "attention.output.dense": "attention.output",
    "layernorm_after": "mlp_norm",
    "intermediate.dense": "up_projection",
    "output.dense": "down_projection",
}
"""The parts of a block: timm's names, then those of Hugging Face's modules and those of its files."""

APART = {
    **{"attention.q_proj": 0, "attention.k_proj": 1, "attention.v_proj": 2},
    **{"attention.attention.query": 0, "attention.attention.key": 1, "attention.attention.value": 2},
}
"""The projections that Hugging Face keeps apart and that are one matrix here: its names, and which rows they are."""

BLOCK = re.compile(r"(?:blocks|layers|encoder\.layer)\.(?P<number>\d+)\.(?P<part>.+)\.(?P<kind>weight|bias)")


def load_vit(model: ViT, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a ViT with a classifier, by their names in timm or in Hugging Face's transformers.

    >>> load_vit(ViT(1, 4, 4, 2, layers=1), {"cls_token": torch.zeros(1, 1, 64)})
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the file is not a ViT of this size: it has no position_embedding and 18 more
    """
    give_weights(model, renamed(weights), "ViT")


def renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under our names; a tensor that is not part of a ViT keeps its name.

    >>> list(renamed({"blocks.3.attn.qkv.bias": torch.zeros(6)}))
    ['blocks.3.attention.projection.bias']
    """
    found: dict[str, Tensor] = {}
    thirds: dict[str, dict[int, Tensor]] = {}
    for name, tensor in weights.items():
        name = name.removeprefix("vit.")
        block = BLOCK.fullmatch(name)
        if block is None:
            part, _, kind = name.rpartition(".")
            found[OUTER.get(name) or (f"{OUTER.get(part, part)}.{kind}" if part else name)] = tensor
            continue
        prefix, part = f"blocks.{block['number']}.", block["part"]
        if part in APART:
            thirds.setdefault(f"{prefix}attention.projection.{block['kind']}", {})[APART[part]] = tensor
        else:
            found[f"{prefix}{INNER.get(part, part)}.{block['kind']}"] = tensor
    return found | {name: torch.cat([parts[i] for i in sorted(parts)]) for name, parts in thirds.items()}
