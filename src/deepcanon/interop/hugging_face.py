"""Weights of GPT-2 under the names of Hugging Face's transformers."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.interop.weights import give_weights
from deepcanon.models.attention.gpt import GPT

OUTER = {"wte.weight": "token_embedding.weight", "wpe.weight": "position_embedding.weight", "ln_f": "norm"}
INNER = {
    "ln_1": "attention_norm",
    "attn.c_attn": "attention.projection",
    "attn.c_proj": "attention.output",
    "ln_2": "mlp_norm",
    "mlp.c_fc": "up_projection",
    "mlp.c_proj": "down_projection",
}
"""GPT-2's names of the parts of a block, and ours."""

NOT_WEIGHTS = (".attn.bias", ".attn.masked_bias", "lm_head.weight")
"""Masks that old files hold, and the head, which is tied to the token embedding."""


def load_gpt2(model: GPT, weights: Mapping[str, Tensor]) -> None:
    """Load the weights of a GPT-2 by their names in Hugging Face's files, with or without a head, into the model.

    >>> load_gpt2(GPT(5, 4, 1, 1, 2, activation="gelu_tanh"), {})
    Traceback (most recent call last):
    ...
    deepcanon.core.errors.UsageError: the file is not a GPT-2 of this size: it has no token_embedding.weight and 15 more
    """
    if model.activation != "gelu_tanh":
        raise UsageError("GPT-2 has the GELU by its tanh formula: make the model with activation='gelu_tanh'")
    _check(model)
    found = {}
    for name, tensor in weights.items():
        ours = our_name(name)
        if ours is not None:
            found[ours] = tensor.T if _transposed(name) else tensor
    give_weights(model, found, "GPT-2")


def to_gpt2(model: GPT) -> dict[str, Tensor]:
    """The model's weights under GPT-2's names, as Hugging Face's ``GPT2LMHeadModel`` loads them.

    >>> sorted(to_gpt2(GPT(5, 4, 1, 1, 2)))[:2]
    ['lm_head.weight', 'transformer.h.0.attn.c_attn.bias']
    """
    _check(model)
    theirs = {f"transformer.{their_name(name)}": tensor for name, tensor in model.state_dict().items()}
    turned = {name: tensor.T.contiguous() if _transposed(name) else tensor for name, tensor in theirs.items()}
    return {**turned, "lm_head.weight": model.token_embedding.weight.detach()}


def our_name(name: str) -> str | None:
    """Our name of a tensor of a GPT-2; None if it is not a weight of its own.

    >>> our_name("transformer.h.3.mlp.c_proj.bias")
    'blocks.3.down_projection.bias'
    """
    name = name.removeprefix("transformer.")
    if name.endswith(NOT_WEIGHTS):
        return None
    if name.startswith("h."):
        _, number, rest = name.split(".", 2)
        part, _, kind = rest.rpartition(".")
        return f"blocks.{number}.{INNER.get(part, part)}.{kind}"
    part, _, kind = name.rpartition(".")
    return OUTER.get(name) or f"{OUTER.get(part, part)}.{kind}"


def their_name(name: str) -> str:
    """GPT-2's name of one of our tensors.

    >>> their_name("blocks.3.down_projection.bias")
    'h.3.mlp.c_proj.bias'
    """
    back = {ours: theirs for theirs, ours in (OUTER | INNER).items()}
    part, _, kind = name.rpartition(".")
    if name.startswith("blocks."):
        _, number, rest = part.split(".", 2)
        return f"h.{number}.{back[rest]}.{kind}"
    return back.get(name) or f"{back[part]}.{kind}"


def _check(model: GPT) -> None:
    """Refuse a model that is none of GPT-2's."""
    if (model.positions, model.attention) != ("learned", "softmax"):
        raise UsageError(
            "GPT-2 has learned positions and softmax attention; this model has "
            f"positions={model.positions!r} and attention={model.attention!r}"
        )


def _transposed(name: str) -> bool:
    """Whether GPT-2 keeps this matrix of a linear layer transposed."""
    return name.endswith("weight") and ".c_" in name
