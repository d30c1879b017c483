"""Weights of residual networks under the names of Hugging Face's transformers, and under torchvision's, ours too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from deepcanon.core import UsageError

ENDS = {
    "resnet.embedder.embedder.convolution.": "conv1.",
    "resnet.embedder.embedder.normalization.": "bn1.",
    "classifier.1.": "fc.",
}
"""The parts before and after the blocks: the prefixes of Hugging Face's names, and torchvision's."""

BLOCK = re.compile(
    r"resnet\.encoder\.stages\.(?P<stage>\d+)\.layers\.(?P<block>\d+)\."
    r"(?:shortcut|layer\.(?P<part>\d+))\.(?P<kind>convolution|normalization)\."
)


def from_hugging_face(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a ``ResNetForImageClassification`` of Hugging Face, as our ``ResNet`` loads them.

    >>> import torch
    >>> list(from_hugging_face({"resnet.encoder.stages.0.layers.1.layer.0.convolution.weight": torch.zeros(1)}))
    ['layer1.1.conv1.weight']
    """
    return {_renamed(name): value for name, value in weights.items()}


def _renamed(name: str) -> str:
    for theirs, ours in ENDS.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    found = BLOCK.match(name)
    if found is None:
        raise UsageError(
            f"{name!r} is not a weight of a Hugging Face ResNet with a classifier; torchvision's load as they are"
        )
    convolves = found["kind"] == "convolution"
    if found["part"] is None:
        layer = f"downsample.{0 if convolves else 1}"
    else:  # torchvision counts stages and parts from 1
        layer = f"{'conv' if convolves else 'bn'}{int(found['part']) + 1}"
    return f"layer{int(found['stage']) + 1}.{found['block']}.{layer}.{name[found.end() :]}"
