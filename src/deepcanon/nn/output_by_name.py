"""Output layers by name: the full, hierarchical and sampled forms of the softmax."""

from __future__ import annotations

from collections.abc import Callable

from deepcanon.core import UsageError
from deepcanon.core.options import check_options, choose, parse
from deepcanon.nn.hierarchical_softmax import HierarchicalSoftmax
from deepcanon.nn.output_layer import FullSoftmax, OutputLayer
from deepcanon.nn.sampled_softmax import (
    AdaptiveImportanceSampling,
    ImportanceSampling,
    NegativeSampling,
    NoiseContrastive,
)

OUTPUT_LAYERS: dict[str, type[OutputLayer]] = {
    "softmax": FullSoftmax,
    "hierarchical": HierarchicalSoftmax,
    "negative": NegativeSampling,
    "nce": NoiseContrastive,
    "importance": ImportanceSampling,
    "adaptive": AdaptiveImportanceSampling,
}
"""The output layers by their names."""


def output_layer(text: str, width: int, classes: int) -> OutputLayer:
    """The output layer of this name, with its options: "hierarchical:tree=balanced", "nce:samples=128,negatives=50".

    >>> type(output_layer("hierarchical:tree=balanced", 8, 100)).__name__
    'HierarchicalSoftmax'
    """
    name, options = parse(text)
    choose("output layer", name, OUTPUT_LAYERS)
    cls: Callable[..., OutputLayer] = OUTPUT_LAYERS[name]
    check_options(f"the output layer {name}", cls, options, own=("width", "classes"))
    try:
        return cls(width, classes, **options)
    except TypeError as error:
        raise UsageError(f"the output layer {text!r} was refused: {error}") from error
