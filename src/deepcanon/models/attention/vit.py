"""Vision transformer (ViT)."""

from __future__ import annotations

from math import gcd, isqrt
from typing import Self

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from deepcanon.core import Labeled, Recipe, UsageError
from deepcanon.core.checks import at_least
from deepcanon.models.attention._transformer import Block, run_blocks, weights_of_blocks
from deepcanon.models.convolutional._convolutional import ImagePredictor
from deepcanon.nn.positions import sinusoidal_2d


class ViT(ImagePredictor):
    r"""A transformer encoder on the patches of an image and a class token, whose output is the prediction.

    Also known as: ViT-B/16, ViT-L/16.

    .. math:: h^0 = [c;\; W x_1 + b;\; \dots;\; W x_N + b] + P \qquad (1)

    .. math:: h = \mathrm{block}_L(\cdots \mathrm{block}_1(h^0)), \qquad
              f(x) = A\, \mathrm{norm}(h_0) + a \qquad (2)

    Here :math:`x_1, \dots, x_N` are the patches, row by row; the class token c and the position embedding P are
    learned. Only P says which patches are neighbors; it is initialized as sines and cosines along rows and columns, so
    that few images are enough to learn from.
    ``ViT(3, 224, 224, 1000, patch=16, layers=12, heads=12, embedding=768)`` is ViT-B/16, which
    ``deepcanon.from_pretrained(folder)`` builds with its weights from a folder of Hugging Face; those of timm load by
    :func:`deepcanon.interop.vit_names.load_vit`.

    References:
        | An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale (Dosovitskiy et al., 2021),
          https://arxiv.org/abs/2010.11929
        | Better plain ViT baselines for ImageNet-1k (Beyer et al., 2022; sinusoidal positions),
          https://arxiv.org/abs/2205.01580
        | Quantifying Attention Flow in Transformers (Abnar and Zuidema, 2020; attention rollout),
          https://arxiv.org/abs/2005.00928

    Arguments:
        channels: The channels of an image: 1 if it is gray, 3 if it has colors.
        height: The height of an image in pixels.
        width: The width of an image in pixels.
        classes: The number of classes; for real targets leave it out.
        targets: The number of real targets; for classes leave it out.
        patch: The side of a patch in pixels, which divides height and width; unless given, the largest one with no more
            pixels along a side than there are patches along the shorter side of the image.
        layers: The number of blocks.
        heads: The number of attention heads of each block.
        embedding: The width of the patch embedding, a multiple of ``heads`` and of 4.
        dropout: The dropout probability of embeddings, attention weights and what a block adds.
        smoothing: The label smoothing :math:`\epsilon`, the share of each label that goes to all classes alike in
            training; real targets stay as they are.
        epsilon: The small number under the root of the layer normalizations; weights of Hugging Face want 1e-12.
        head: Not an attention head but the distribution of real targets by name, "gaussian", "heteroscedastic",
            "bernoulli" or one of torch.distributions; without one the loss is the squared error.
    """

    recipe = Recipe(
        optimizer="adamw:weight_decay=0.05",
        lr=1e-3,
        schedule="cosine:warmup=100",
        batch_size=64,
        epochs=40,
        clip="norm:1.0",
    )

    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        classes: int | None = None,
        targets: int | None = None,
        patch: int | None = None,
        layers: int = 4,
        heads: int = 4,
        embedding: int = 64,
        dropout: float = 0.0,
        smoothing: float = 0.1,
        epsilon: float = 1e-6,
        head: str | None = None,
    ) -> None:
        super().__init__(channels, height, width, classes, targets, smoothing, head)
        at_least(1, layers=layers, heads=heads, embedding=embedding)
        if embedding % 4:
            raise UsageError(
                f"rows and columns get sines and cosines: embedding must be a multiple of 4 (got {embedding})"
            )
        if not 0 <= dropout < 1:
            raise UsageError(f"dropout is the probability to drop a value, from 0 to below 1 (got {dropout})")
        self.patch = _fitting_patch(height, width) if patch is None else _checked_patch(patch, height, width)
        self.dropout = dropout
        self.patch_embedding = nn.Conv2d(channels, embedding, self.patch, stride=self.patch)  # W, b
        encoding = sinusoidal_2d(height // self.patch, width // self.patch, embedding).flatten(0, 1)  # (N, embedding)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, embedding))  # c
        self.position_embedding = nn.Parameter(torch.cat([torch.zeros(1, embedding), encoding]).unsqueeze(0))  # P
        self.blocks = nn.ModuleList(Block(embedding, heads, dropout, functional.gelu, epsilon) for _ in range(layers))
        self.norm = nn.LayerNorm(embedding, epsilon)
        self.head = nn.Linear(embedding, self.outputs)  # A, a
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    @classmethod
    def example(cls) -> tuple[Self, Labeled]:
        x = torch.randn(24, 1, 4, 6, generator=torch.Generator().manual_seed(0))
        halves = torch.stack([x[..., :3].mean((1, 2, 3)), x[..., 3:].mean((1, 2, 3))], -1)
        model = cls(channels=1, height=4, width=6, classes=2, layers=2, heads=2, embedding=8)
        return model, Labeled(x, halves.argmax(-1))

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (B, classes), the means of the targets, (B, targets), or the parameters of the head."""
        h = run_blocks(self.blocks, self._embedded(x))
        outputs: Tensor = self.head(self.norm(h[:, 0]))  # eq. (2)
        return outputs

    def attention_maps(self, x: Tensor) -> Tensor:
        """The attention weights among class token and patches, (layers, B, heads, 1 + N, 1 + N)."""
        return weights_of_blocks(self.blocks, self._embedded(x))

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        """Images, and what the class token attends to in the first block, in the last and by attention rollout."""
        maps = self.attention_maps(x).mean(2)  # (layers, B, 1 + N, 1 + N)
        shown = {"attention: first block": maps[0], "last block": maps[-1], "all blocks": rollout(maps)}
        return {"data": x, **{name: self._as_images(map[:, 0, 1:], x) for name, map in shown.items()}}

    def _embedded(self, x: Tensor) -> Tensor:
        """The class token and the patches with their positions, (B, 1 + N, embedding)."""
        patches = self.patch_embedding(self._images(x)).flatten(2).mT  # (B, N, embedding)
        h = (
            torch.cat([self.class_token.expand(patches.shape[0], -1, -1), patches], 1) + self.position_embedding
        )  # eq. (1)
        return functional.dropout(h, self.dropout) if self.dropout and self.training else h

    def _as_images(self, weights: Tensor, like: Tensor) -> Tensor:
        """Attention weights of patches, (B, N), as images in the range of ``like``, each up to its largest."""
        channels, height, width = self.shape
        low, high = like.aminmax()
        bright = low + (high - low) * weights / weights.amax(1, keepdim=True)
        grid = bright.view(-1, 1, height // self.patch, width // self.patch)
        larger = grid.repeat_interleave(self.patch, 2).repeat_interleave(self.patch, 3)
        return larger.expand(-1, channels, -1, -1).reshape(like.shape)


def rollout(maps: Tensor) -> Tensor:
    r"""The attention rollout, how much of each input reaches each output, (B, T, T), from maps (layers, B, T, T).

    .. math:: R = \prod_l \tfrac12 (A_l + I) \qquad (3)

    The identity stands for the skip connections: half of the output of a block is taken to be its input.

    >>> rollout(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]]))
    tensor([[[0.5000, 0.5000],
             [0.0000, 1.0000]]])
    """
    through = torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)
    for map in maps:
        through = (map @ through + through) / 2  # eq. (3)
    return through


def _fitting_patch(height: int, width: int) -> int:
    shared, most = gcd(height, width), isqrt(min(height, width))
    return max(side for side in range(1, most + 1) if shared % side == 0)


def _checked_patch(patch: int, height: int, width: int) -> int:
    at_least(1, patch=patch)
    if height % patch or width % patch:
        shared = gcd(height, width)
        sides = ", ".join(str(side) for side in range(1, shared + 1) if shared % side == 0)
        raise UsageError(
            f"patches must fill an image of {height}x{width} pixels: patch is one of {sides} (got {patch})"
        )
    return patch
