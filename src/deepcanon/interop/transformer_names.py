"""Weights of torch.nn.Transformer and torch.nn.TransformerEncoder."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from deepcanon.interop.weights import give_weights
from deepcanon.models.attention.transformer import Transformer
from deepcanon.models.attention.transformer_classifier import TransformerClassifier

SHARED = {
    "self_attn.in_proj_": "attention.projection.",
    "self_attn.out_proj.": "attention.output.",
    "linear1.": "up_projection.",
    "linear2.": "down_projection.",
    "norm1.": "attention_norm.",
}
ENCODER = SHARED | {"norm2.": "mlp_norm."}
DECODER = SHARED | {
    "multihead_attn.in_proj_": "cross_attention.projection.",
    "multihead_attn.out_proj.": "cross_attention.output.",
    "norm2.": "memory_norm.",
    "norm3.": "mlp_norm.",
}
"""The beginnings of torch's names in a layer of an encoder and of a decoder, and ours."""

LAYER = re.compile(r"(?P<stack>encoder|decoder)\.layers\.(?P<number>\d+)\.(?P<part>.+)(?P<kind>weight|bias)")


def load_transformer(model: Transformer | TransformerClassifier, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a ``torch.nn.Transformer`` or, into a classifier, of a ``torch.nn.TransformerEncoder``.

    The modules of torch have no embeddings and no output layer: those of the model stay as they are.

    >>> load_transformer(Transformer(5, 5, 0, 1, layers=1), {})
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the file is not a torch.nn.Transformer of this size: it has no encoder... and ...
    """
    own = {name: tensor for name, tensor in model.state_dict().items() if not _of_torch(name)}
    if isinstance(model, TransformerClassifier):
        weights = {f"encoder.{name}": tensor for name, tensor in weights.items()}
    kind = "torch.nn.Transformer" + ("Encoder" if isinstance(model, TransformerClassifier) else "")
    give_weights(model, {**own, **{our_name(name): tensor for name, tensor in weights.items()}}, kind)


def to_transformer(model: Transformer | TransformerClassifier) -> dict[str, Tensor]:
    """The weights of both stacks as a ``torch.nn.Transformer`` loads them; of a classifier, those of its encoder.

    >>> sorted(to_transformer(Transformer(5, 5, 0, 1, layers=1)))[:2]
    ['decoder.layers.0.linear1.bias', 'decoder.layers.0.linear1.weight']
    """
    theirs = {their_name(name): tensor for name, tensor in model.state_dict().items() if _of_torch(name)}
    if isinstance(model, TransformerClassifier):
        return {name.removeprefix("encoder."): tensor for name, tensor in theirs.items()}
    return theirs


def our_name(name: str) -> str:
    """Our name of a tensor of torch's.

    >>> our_name("decoder.layers.1.multihead_attn.in_proj_bias")
    'decoder.blocks.1.cross_attention.projection.bias'
    """
    layer = LAYER.fullmatch(name)
    if layer is None:
        return name  # the last normalizations are called alike
    names = ENCODER if layer["stack"] == "encoder" else DECODER
    return f"{layer['stack']}.blocks.{layer['number']}.{names.get(layer['part'], layer['part'])}{layer['kind']}"


def their_name(name: str) -> str:
    """Torch's name of one of our tensors.

    >>> their_name("encoder.blocks.0.mlp_norm.weight")
    'encoder.layers.0.norm2.weight'
    """
    stack, first, rest = name.split(".", 2)
    if first != "blocks":
        return name
    back = {ours: theirs for theirs, ours in (ENCODER if stack == "encoder" else DECODER).items()}
    number, part = rest.split(".", 1)
    kind = part.rpartition(".")[2]
    return f"{stack}.layers.{number}.{back[part.removesuffix(kind)]}{kind}"


def _of_torch(name: str) -> bool:
    """Whether torch's module has this tensor of ours, too."""
    return bool(re.match(r"(encoder|decoder)\.(blocks|norm)\.", name))
