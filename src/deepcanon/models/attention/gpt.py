"""Generative pre-trained transformer (GPT)."""

from __future__ import annotations

from typing import Literal, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from deepcanon.core import Recipe, Sequences, UsageError
from deepcanon.core.checks import at_least, one_of
from deepcanon.models._language_model import LanguageModel
from deepcanon.models.attention._transformer import (
    Attention,
    Block,
    DecodingState,
    init_weights,
    new_caches,
    run_blocks,
    self_attention,
    weights_of_blocks,
)
from deepcanon.nn.gelu import gelu_tanh
from deepcanon.nn.packed import TiedEmbedding
from deepcanon.nn.positions import RelativeBias, sinusoidal

Gelu = Literal["gelu_tanh", "gelu"]
Positions = Literal["learned", "sinusoidal", "rotary", "relative", "none"]
REACH = 32
"""Larger distances share the relative bias of this one."""


class GPT(LanguageModel[Sequences]):
    r"""A causal transformer language model: each token attends to those before it and predicts the next one.

    Also known as: decoder-only transformer, autoregressive transformer, causal language model, GPT-2.

    .. math:: h = \mathrm{block}_L(\cdots \mathrm{block}_1(E_x + P)) \qquad (1)

    .. math:: p(x_{t+1} \mid x_{\le t}) = \mathrm{softmax}(E\, \mathrm{norm}(h_t)) \qquad (2)

    The token embedding E is tied to the output layer, P is the position embedding. Training is teacher forcing: all
    positions of a text predict their next token at once, in nats per token; e to the power of this loss is the
    perplexity. Blocks, initial weights and names of sizes are those of GPT-2:
    ``GPT(vocab=50257, length=1024, layers=12, heads=12, embedding=768)`` is its small model, which
    ``deepcanon.from_pretrained(folder)`` builds with its weights from a folder of Hugging Face.

    A text longer than the context of ``length`` tokens is read in windows that overlap by half: when a window is full,
    its latter half begins the next one. So every token is predicted from at least half of ``length`` tokens, and
    generation with a key-value cache gives the text that it gives without one.

    Tiny Shakespeare, as nanoGPT trains it on a CPU, in two or three minutes on one core::

        deepcanon train gpt --data shakespeare --batch-size 12 --steps 2000

    References:
        | Improving Language Understanding by Generative Pre-Training (Radford et al., 2018),
          https://cdn.openai.com/research-covers/language-unsupervised/language_understanding_paper.pdf
        | Language Models are Unsupervised Multitask Learners (Radford et al., 2019),
          https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf

    Arguments:
        vocab: The number of different tokens.
        length: The context length: how many tokens the model can attend to.
        layers: The number of blocks.
        heads: The number of attention heads of each block.
        embedding: The width of the token embedding, a multiple of ``heads``.
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        activation: The activation of the blocks: the GELU, "gelu", or its tanh formula, "gelu_tanh", by which the
            weights of GPT-2 were trained and which takes longer.
        positions: The positions: "learned" or "sinusoidal" ones that are added to the embeddings, "rotary" ones, by
            which queries and keys are rotated, "relative" ones, a bias of the scores by the distance, or "none": how
            many tokens it attends to is then all that a token can tell of its position.
        attention: The self-attention: "softmax", "linear" in the length of the text, or "local", within a reach.
        reach: How many tokens before it a token attends to by local attention.
        output: The output layer. Where the vocabulary is large, training costs less with hierarchical, importance,
            adaptive, nce or negative, which take options: hierarchical:tree=balanced, nce:samples=128. None of
            these shares its weights with E.
    """

    recipe = Recipe(
        optimizer="adamw:betas=0.9/0.99,weight_decay=0.1",
        lr=1e-3,
        schedule="cosine:warmup=100,end=0.1",
        batch_size=32,
        epochs=8,
        clip="norm:1.0",
    )

    def __init__(
        self,
        vocab: int,
        length: int,
        layers: int = 4,
        heads: int = 4,
        embedding: int = 128,
        dropout: float = 0.0,
        activation: Gelu = "gelu",
        positions: Positions = "learned",
        attention: Attention = "softmax",
        reach: int | None = None,
        output: str = "softmax",
    ) -> None:
        super().__init__(vocab)
        at_least(1, length=length, layers=layers, heads=heads, embedding=embedding)
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")
        one_of(get_args(Gelu), activation=activation)
        one_of(get_args(Positions), positions=positions)
        if positions == "relative" and attention == "linear":
            raise UsageError("linear attention has no scores: it takes learned or sinusoidal positions")
        self.length, self.dropout, self.activation = length, dropout, activation
        self.positions, self.attention = positions, attention
        self.token_embedding = TiedEmbedding(vocab, embedding)  # E
        if positions == "learned":
            self.position_embedding = nn.Embedding(length, embedding)  # P
        elif positions == "sinusoidal":
            self.register_buffer("position_table", sinusoidal(length, embedding), persistent=False)  # P
        self.relative = RelativeBias(heads, min(length, REACH)) if positions == "relative" else None
        gelu = gelu_tanh if activation == "gelu_tanh" else functional.gelu
        rotary = positions == "rotary"
        parts = [
            self_attention(attention, embedding, heads, dropout, rotary=rotary, reach=reach) for _ in range(layers)
        ]
        self.blocks = nn.ModuleList(Block(embedding, heads, dropout, gelu, attention=part) for part in parts)
        self.norm = nn.LayerNorm(embedding)
        init_weights(self, layers)
        if output != "softmax":
            self._head(output, embedding)

    @classmethod
    def example(cls) -> tuple[Self, Sequences]:
        start = torch.arange(16).unsqueeze(1)
        x = (start + torch.arange(9) * (1 + start % 2)) % 7
        lengths = torch.where(start.squeeze(1) < 12, 9, 5)
        return cls(vocab=7, length=8, layers=2, heads=2, embedding=8), Sequences(x, lengths)

    def outputs(self, tokens: Tensor) -> Tensor:
        """The logits of the next token after each token, (B, T, vocab), for rows of any length.

        No token attends to those after it, so that the padding of a row changes nothing.
        """
        parts = [self._logits(tokens[:, : self.length])]
        for end in range(self.length, tokens.shape[1], self._stride):
            window = tokens[:, end + self._stride - self.length : end + self._stride]
            parts.append(self._logits(window)[:, self.length - self._stride :])
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def read(self, tokens: Tensor, state: DecodingState | None) -> tuple[Tensor, DecodingState]:
        """The logits after each of the new tokens, (B, t, vocab), and the new state, by cached decoding from ``state``.

        Of more tokens than a window holds, only the logits of the last ones are given.
        """
        if state is None:
            state = DecodingState(tokens[:, :0], new_caches(self.blocks, self.length))
        new = tokens.shape[1]
        window = torch.cat([state.tokens, tokens], 1)
        over = window.shape[1] - self.length
        if over > 0:  # positions count from the start of a window, so the cache of a window that moves is stale
            window = tokens = window[:, -(-over // self._stride) * self._stride :]
            for cache in state.caches:
                cache.own.crop(0)
        state.tokens = window
        h = self._embedded(tokens, window.shape[1] - tokens.shape[1])
        bias = self._bias(tokens.shape[1], window.shape[1])
        for block, cache in zip(self.blocks, state.caches, strict=True):
            h = block(h, causal=True, bias=bias, cache=cache)
        return self._output_logits(h)[:, -new:], state

    def attention_maps(self, x: Tensor) -> Tensor:
        """The attention weights among the first ``length`` tokens, (layers, B, heads, T, T)."""
        x = x[:, : self.length]
        return weights_of_blocks(
            self.blocks, self._embedded(x, 0), causal=True, bias=self._bias(x.shape[1], x.shape[1])
        )

    @property
    def _stride(self) -> int:
        """The stride from one window to the next."""
        return self.length - self.length // 2

    def _logits(self, x: Tensor) -> Tensor:
        """The logits of the next token after each token of a window, (B, t, vocab)."""
        bias = self._bias(x.shape[1], x.shape[1])
        return self._output_logits(run_blocks(self.blocks, self._embedded(x, 0), causal=True, bias=bias))  # eq. (1)

    def _output_logits(self, h: Tensor) -> Tensor:
        return self._tied(self.norm(h), self.token_embedding)  # eq. (2)

    def _bias(self, queries: int, keys: int) -> Tensor | None:
        """What relative positions add to the scores, (heads, queries, keys)."""
        return None if self.relative is None else self.relative(queries, keys)

    def _embedded(self, x: Tensor, start: int) -> Tensor:
        h: Tensor = self.token_embedding(x)
        table = self.position_embedding.weight if self.positions == "learned" else getattr(self, "position_table", None)
        if table is not None:
            h = h + table[start : start + x.shape[1]]
        return functional.dropout(h, self.dropout) if self.dropout and self.training else h
