"""The transformer block, its cached form for decoding, and its weight initialization."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, layer_norm, linear

from deepcanon.nn.attention import KVCache, MultiHeadAttention, attention
from deepcanon.nn.gelu import gelu_tanh

INITIAL_STD = 0.02
"""The standard deviation of the initial weights."""


class Block(nn.Module):
    r"""A pre-norm transformer block: self-attention, then a position-wise MLP, each with a skip connection.

    .. math:: x \leftarrow x + \mathrm{attention}(\mathrm{norm}(x)), \qquad
              x \leftarrow x + W_2\, \mathrm{gelu}(W_1 \mathrm{norm}(x)) \qquad (1)

    References:
        | Language Models are Unsupervised Multitask Learners (Radford et al., 2019),
          https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf

    Arguments:
        width: The width of the embedding of a token.
        heads: The number of attention heads.
        drop: The dropout probability of attention weights and of what the skip connections add to, in training.
        activation: The activation of the MLP, by default GELU by its tanh formula.
        epsilon: The small number under the root of the layer normalizations.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        drop: float = 0.0,
        activation: Callable[[Tensor], Tensor] = gelu_tanh,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        self.drop, self.activation = drop, activation
        self.attention_norm = nn.LayerNorm(width, epsilon)
        self.attention = MultiHeadAttention(width, heads, dropout=drop)
        self.mlp_norm = nn.LayerNorm(width, epsilon)
        self.up_projection = nn.Linear(width, 4 * width)  # W_1
        self.down_projection = nn.Linear(4 * width, width)  # W_2

    def forward(self, x: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """The tokens (B, T, width) after the block."""
        attended = self.attention(self.attention_norm(x), mask=mask, causal=causal)
        x = x + self._dropped(attended)
        return x + self._dropped(self.down_projection(self.activation(self.up_projection(self.mlp_norm(x)))))  # eq. (1)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.drop) if self.drop and self.training else x


class CachedBlock:
    """A causal block of GPT-2 in eval mode with a key-value cache, for decoding one token at a time.

    The matrices of one token are so small that a block's modules take longer to be called than to compute; here their
    weights are plain tensors that are looked up once.
    """

    def __init__(self, block: Block, capacity: int) -> None:
        layers = (block.attention_norm, block.attention.projection, block.attention.output,
                  block.mlp_norm, block.up_projection, block.down_projection)  # fmt: skip
        self.weights = [(layer.weight, layer.bias) for layer in layers]
        self.heads = block.attention.heads
        self.cache = KVCache(capacity)

    def __call__(self, x: Tensor) -> Tensor:
        """The further tokens (B, t, width) after the block."""
        first_norm, projection, output, second_norm, up, down = self.weights
        rows, new, width = x.shape
        parts = linear(layer_norm(x, (width,), *first_norm), *projection)
        q, k, v = parts.view(rows, new, 3 * self.heads, width // self.heads).transpose(1, 2).chunk(3, 1)
        attended = attention(q, *self.cache.append(k, v), causal=True)  # (B, heads, t, d)
        x = x + linear(attended.transpose(1, 2).reshape(rows, new, width), *output)
        return x + linear(gelu(linear(layer_norm(x, (width,), *second_norm), *up), approximate="tanh"), *down)


def init_weights(module: nn.Module, blocks: int) -> None:
    """Initialize the weights as GPT-2: Gaussian, and smaller where a layer feeds a skip connection."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            residual = name.endswith(("attention.output", "down_projection"))
            nn.init.normal_(part.weight, std=INITIAL_STD / (2 * blocks) ** 0.5 if residual else INITIAL_STD)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
