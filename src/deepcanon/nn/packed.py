"""Linear layers with packed weights, for decoding: many products of few rows with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from deepcanon.core.fast_product import linear

STEPS = 16
"""The number of products from which on packing pays: it takes as long as what it saves in some seven of them."""
MOST_ROWS = 32
"""The largest number of rows; with more of them, the arithmetic takes longer than the reading of the weights."""
LEAST_SIZE = 2**16
"""The smallest number of weights; fewer stay in the cache of the processor."""


class TiedEmbedding(nn.Embedding):
    """An embedding of tokens which is also the output layer: the logit of a token is the product with its vector.

    >>> TiedEmbedding(5, 2).logits(torch.zeros(3, 2)).shape
    torch.Size([3, 5])
    """

    def logits(self, h: Tensor) -> Tensor:
        """The logits of all tokens, (..., tokens), of hidden vectors (..., width)."""
        return linear(h, self.output_weight())

    def output_weight(self) -> Tensor:
        """The vectors of the tokens that are predicted."""
        return self.weight


@contextmanager
def packed_weights(model: nn.Module, steps: int) -> Iterator[None]:
    """Within it the large linear layers of a model multiply few rows by weights packed once, for ``steps`` products.

    A product of some rows with a matrix takes most of its time to read the matrix, which a library rearranges at each
    call. Here oneDNN does so at the first call only. The weights must stay as they are until the end; the results are
    those of torch's linear layers up to the order of the sums, and exactly those where nothing is packed: in training,
    on a GPU, in other precisions than float32, for one row and for many.
    """
    replaced: list[tuple[nn.Module, str]] = []
    if steps >= STEPS and can_pack():
        for layer in model.modules():
            if type(layer) is nn.Linear and not layer._forward_pre_hooks:
                replaced.append((layer, "forward"))
                vars(layer)["forward"] = _Packed(layer.forward, layer.weight, layer.bias)
            elif isinstance(layer, TiedEmbedding):
                replaced.append((layer, "logits"))
                vars(layer)["logits"] = _Packed(layer.logits, layer.output_weight(), None)
    try:
        yield
    finally:
        for layer, name in replaced:
            vars(layer).pop(name, None)  # the method of its class shows again


def can_pack() -> bool:
    """Whether torch has oneDNN's linear layer, which it keeps for its compiler, and the processor has AVX."""
    operations = torch.ops.mkldnn
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
        and all(hasattr(operations, name) for name in ("_reorder_linear_weight", "_linear_pointwise"))
    )


class _Packed:
    """A linear layer in whose place the packed one stands where that is faster."""

    def __init__(self, plain: Callable[[Tensor], Tensor], weight: Tensor, bias: Tensor | None) -> None:
        self.plain, self.weight, self.bias = plain, weight, bias
        self.suits = weight.dtype == torch.float32 and weight.device.type == "cpu" and weight.numel() >= LEAST_SIZE
        self.multiply = torch.ops.mkldnn._linear_pointwise.default
        self.packed: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        suits = self.suits and 1 < rows <= MOST_ROWS and x.dtype == torch.float32
        if not suits or not torch.is_inference_mode_enabled() or torch.is_autocast_enabled("cpu"):
            return self.plain(x)
        if self.packed is None:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), rows)
        product: Tensor = self.multiply(x, self.packed, self.bias, "none", [], "")
        return product
