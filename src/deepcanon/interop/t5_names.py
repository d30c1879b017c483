"""Weights of T5 under the names of Hugging Face's transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.interop.weights import give_weights
from deepcanon.models.attention.t5 import T5

TABLE = "token_embedding.weight"
SHARED = "shared.weight"
TWICE = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
"""Other names of the embedding, which is one."""

BUCKETS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
"""The bias of all layers of a stack, which Hugging Face keeps in the first."""

LAYERS = {"SelfAttention": "attention", "EncDecAttention": "cross_attention"}
LINEAR = {"wi": "up_projection", "wo": "down_projection"}
NORMS = {
    "encoder": ("attention_norm", "mlp_norm"),
    "decoder": ("attention_norm", "memory_norm", "mlp_norm"),
}
"""The normalizations of a block by the numbers of their layers."""

PART = re.compile(r"(?P<stack>encoder|decoder)\.block\.(?P<block>\d+)\.layer\.(?P<layer>\d)\.(?P<rest>.+)\.weight")


def load_t5(model: T5, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a ``T5ForConditionalGeneration`` by their names in transformers into the model.

    >>> load_t5(T5(5, 5, 0, 1, layers=1), {})
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the file is not a T5 of this size: it has no encoder.blocks.0... and 19 more
    """
    give_weights(model, {"longest_target": model.longest_target, **renamed(weights)}, "T5")


def renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under our names; a tensor that is not part of a T5 keeps its name.

    >>> list(renamed({"encoder.block.0.layer.1.DenseReluDense.wi.weight": torch.zeros(2, 2)}))
    ['encoder.blocks.0.up_projection.weight']
    """
    found: dict[str, Tensor] = {}
    thirds: dict[str, dict[str, Tensor]] = {}
    for name, tensor in weights.items():
        if name in TWICE and SHARED in weights:
            continue
        stack, _, rest = name.partition(".")
        part = PART.fullmatch(name)
        if name in (SHARED, *TWICE):
            found[TABLE] = tensor
        elif rest == BUCKETS:
            found[f"{stack}.positions.table"] = tensor.T
        elif rest == "final_layer_norm.weight":
            found[f"{stack}.norm.weight"] = tensor
        elif part is None:
            found[name] = tensor
        else:
            block = f"{stack}.blocks.{part['block']}"
            layer, _, kind = part["rest"].rpartition(".")
            if kind == "layer_norm":
                found[f"{block}.{NORMS[stack][int(part['layer'])]}.weight"] = tensor
            elif layer in LAYERS and kind in "qkv":
                thirds.setdefault(f"{block}.{LAYERS[layer]}.projection.weight", {})[kind] = tensor
            elif layer in LAYERS:
                found[f"{block}.{LAYERS[layer]}.output.weight"] = tensor
            else:
                found[f"{block}.{LINEAR.get(kind, kind)}.weight"] = tensor
    whole = {name: torch.cat([parts[kind] for kind in "qkv" if kind in parts]) for name, parts in thirds.items()}
    return found | whole


def to_t5(model: T5) -> dict[str, Tensor]:
    """The model's weights as Hugging Face's ``T5ForConditionalGeneration`` loads them.

    >>> sorted(to_t5(T5(5, 5, 0, 1, layers=1)))[:2]
    ['decoder.block.0.layer.0.SelfAttention.k.weight', 'decoder.block.0.layer.0.SelfAttention.o.weight']
    """
    if model.token_embedding.first_source:
        raise UsageError("a T5 of Hugging Face has one vocabulary; this one has another for sources than for targets")
    layers, linear = ({ours: theirs for theirs, ours in names.items()} for names in (LAYERS, LINEAR))
    table = model.token_embedding.weight.detach()
    found = dict.fromkeys((SHARED, *TWICE), table)
    for name, tensor in model.state_dict().items():
        stack, _, rest = name.partition(".")
        if rest == "positions.table":
            found[f"{stack}.{BUCKETS}"] = tensor.T.contiguous()
        elif rest == "norm.weight":
            found[f"{stack}.final_layer_norm.weight"] = tensor
        elif rest.startswith("blocks."):
            _, number, part, *kind = rest.removesuffix(".weight").split(".")
            block, last = f"{stack}.block.{number}.layer", len(NORMS[stack]) - 1
            if part in NORMS[stack]:
                found[f"{block}.{NORMS[stack].index(part)}.layer_norm.weight"] = tensor
            elif part in linear:
                found[f"{block}.{last}.DenseReluDense.{linear[part]}.weight"] = tensor
            else:
                before = f"{block}.{[*layers].index(part)}.{layers[part]}"
                if kind == ["output"]:
                    found[f"{before}.o.weight"] = tensor
                else:
                    found |= {
                        f"{before}.{own}.weight": third for own, third in zip("qkv", tensor.chunk(3), strict=True)
                    }
    return found
