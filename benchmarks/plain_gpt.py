"""A GPT in plain torch, operation for operation as nanoGPT has it (https://github.com/karpathy/nanoGPT), with biases.

Its parameters have GPT-2's names, so that weights of either go into the other: linear layers are not transposed here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm, scaled_dot_product_attention

from deepcanon.interop.hugging_face import to_gpt2
from deepcanon.models.attention.gpt import GPT


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        y = scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=True)
        found: Tensor = self.dropout(self.c_proj(y.transpose(1, 2).contiguous().view(rows, length, width)))
        return found


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc, self.gelu, self.c_proj = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.dropout(self.c_proj(self.gelu(self.c_fc(x))))
        return found


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = Norm(width), Attention(width, heads), Norm(width), MLP(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        found: Tensor = x + self.mlp(self.ln_2(x))
        return found


class PlainGPT(nn.Module):
    """The model; called with tokens and the tokens that follow them, it gives the mean negative log-likelihood."""

    def __init__(self, vocab: int, length: int, layers: int, heads: int, width: int) -> None:
        super().__init__()
        parts: dict[str, Any] = {
            "wte": nn.Embedding(vocab, width),
            "wpe": nn.Embedding(length, width),
            "drop": nn.Dropout(0.0),
            "h": nn.ModuleList(Block(width, heads) for _ in range(layers)),
            "ln_f": Norm(width),
        }
        self.transformer = nn.ModuleDict(parts)
        self.lm_head = nn.Linear(width, vocab, bias=False)
        parts["wte"].weight = self.lm_head.weight

    def forward(self, x: Tensor, following: Tensor) -> Tensor:
        parts: Any = self.transformer
        h = parts.drop(parts.wte(x) + parts.wpe(torch.arange(x.shape[1], device=x.device)))
        for block in parts.h:
            h = block(h)
        logits = self.lm_head(parts.ln_f(h))
        return cross_entropy(logits.view(-1, logits.shape[-1]), following.reshape(-1), ignore_index=-1)


def plain(ours: GPT) -> PlainGPT:
    """The same model, with the same weights, as nanoGPT has it: with the exact GELU."""
    sizes = ours.hparams
    model = PlainGPT(sizes["vocab"], sizes["length"], sizes["layers"], sizes["heads"], sizes["embedding"])
    model.to(ours.token_embedding.weight.dtype).load_state_dict(plain_names(ours))
    return model


def plain_names(ours: GPT) -> dict[str, Tensor]:
    """The weights by the names that they have here."""
    return {name: w.T if w.ndim == 2 and ".c_" in name else w for name, w in to_gpt2(ours).items()}
