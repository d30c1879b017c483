"""Grad-CAM and CAM: class activation maps, which show where in an image the evidence for a class lies."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.stats import rankdata
from torch import Tensor, nn

from deepcanon.core import AnyBatch, Labeled, UsageError, eval_mode
from deepcanon.core.checks import at_least
from deepcanon.core.finding import Finding
from deepcanon.core.plural import counted
from deepcanon.insights._engines.layers import images_of, last_map, named, outputs_of
from deepcanon.pictures.heat import heat_over

ALIKE = 0.5
"""The rank correlation with the maps of a random network from which on maps show the image, not the model."""

LETTERS = 16
"""How many letters of a class's name fit above an image."""

FEW = 9
"""A map of fewer positions than these is too coarse to show anything."""


@dataclass(frozen=True)
class ClassMaps:
    """Class activation maps of some images, with the model's logits."""

    layer: str
    maps: Tensor
    """(B, height, width) of the layer's output."""
    classes: Tensor
    """The class of each map, (B,)."""
    logits: Tensor
    """The logits of the model, (B, classes)."""

    @property
    def empty(self) -> Tensor:
        """Whether a map has no position with evidence for the class, (B,)."""
        return self.maps.flatten(1).amax(1) <= 0


def grad_cam_maps(
    model: nn.Module, inputs: Sequence[Any], *, layer: str | None = None, classes: Tensor | None = None
) -> ClassMaps:
    r"""Grad-CAM: the feature maps of a layer, each weighted by the mean gradient of the class score.

    .. math:: \alpha_k = \frac{1}{HW} \sum_{ij} \frac{\partial y_c}{\partial A^k_{ij}}, \qquad
        M = \max\Bigl(0, \sum_k \alpha_k A^k\Bigr)

    The default layer is that of the last convolution, the default class the most probable one of each image.
    """
    name = last_map(outputs_of(model, inputs)).name if layer is None else layer
    activations, logits = _from_layer_on(model, inputs, name)
    if classes is None:
        classes = logits.argmax(-1)
    classes = _checked(classes, logits)
    score = logits.gather(-1, classes.unsqueeze(-1)).sum()
    slopes = torch.autograd.grad(score, activations, allow_unused=True)[0] if score.requires_grad else None
    if slopes is None:
        raise UsageError(f"the output of the model does not depend on the layer {name!r}; choose another layer")
    weights = slopes.flatten(2).mean(-1)  # (B, K)
    maps = torch.einsum("bk,bk...->b...", weights, activations).relu()
    return ClassMaps(name, maps.detach(), classes, logits.detach())


def cam_maps(model: nn.Module, inputs: Sequence[Any], *, classes: Tensor | None = None) -> ClassMaps:
    r"""CAM: the last feature maps before global average pooling, weighted by the last linear layer.

    .. math:: M = \sum_k w_{ck} A^k, \qquad y_c = \frac{1}{HW} \sum_{ij} M_{ij} + b_c

    There Grad-CAM is :math:`\max(0, M) / HW`.
    """
    outputs = outputs_of(model, inputs)
    last = last_map(outputs)
    linear = [output for output in outputs if isinstance(output.module, nn.Linear)]
    weights, bias = _readout(linear[-1].module if linear else None)
    means = last.output.flatten(2).mean(-1)
    with eval_mode(model), torch.random.fork_rng(devices=[]):
        logits = _logits(model(*inputs))
    fits = weights is not None and weights.shape == (logits.shape[-1], means.shape[-1])
    if not fits or not torch.allclose(means @ weights.T + bias, logits, rtol=1e-3, atol=1e-4):  # type: ignore[union-attr]
        raise UsageError(
            "CAM needs a network with global average pooling and one linear layer after its last feature maps; "
            "for this one use Grad-CAM"
        )
    assert weights is not None
    if classes is None:
        classes = logits.argmax(-1)
    classes = _checked(classes, logits)
    maps = torch.einsum("bk,bk...->b...", weights[classes], last.output)
    return ClassMaps(last.name, maps, classes, logits)


def randomized(model: nn.Module, seed: int = 0) -> nn.Module:
    """A copy of the model with random weights: its layers are initialized anew, and other weights are shuffled."""
    control = copy.deepcopy(model)
    initialized: set[int] = set()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        for module in control.modules():
            initialize = getattr(module, "reset_parameters", None)
            if callable(initialize):
                initialize()
                initialized |= {id(parameter) for parameter in module.parameters(recurse=False)}
        for parameter in control.parameters():
            if id(parameter) not in initialized:
                flat = parameter.flatten()
                parameter.copy_(flat[torch.randperm(len(flat), device=flat.device)].view_as(parameter))
    return control


def grad_cam(
    model: nn.Module,
    batch: AnyBatch,
    *,
    layer: str | None = None,
    target: int | None = None,
    shown: int = 8,
    labels: tuple[str, ...] = (),
    seed: int = 0,
) -> Finding:
    r"""Grad-CAM and CAM saliency maps of a class in images, compared with those of a model with random weights.

    Grad-CAM weights the feature maps :math:`A^k` of a layer by the mean gradient of the class score and keeps the
    positive part; CAM, where the network allows it, weights them by the last linear layer. A map that the random model
    has, too, shows the image and not what was learned.

    .. math:: M = \max\Bigl(0, \sum_k \alpha_k A^k\Bigr), \qquad
        \alpha_k = \frac{1}{HW} \sum_{ij} \frac{\partial y_c}{\partial A^k_{ij}}

    References:
        | Learning deep features for discriminative localization (Zhou et al., 2016; CAM),
          https://arxiv.org/abs/1512.04150
        | Grad-CAM: visual explanations from deep networks via gradient-based localization (Selvaraju et al., 2017),
          https://arxiv.org/abs/1610.02391
        | Sanity checks for saliency maps (Adebayo et al., 2018; the random model), https://arxiv.org/abs/1810.03292

    Arguments:
        model: The network; its output are the scores of the classes.
        batch: Images.
        layer: The layer whose feature maps are weighted; by default that of the last convolution.
        target: The class to explain; by default the most probable class of each image.
        shown: How many images to show.
        labels: The names of the classes; by default those of the data, or numbers.
        seed: The seed of the random weights.
    """
    at_least(1, shown=shown)
    images = images_of(batch)
    some = batch.select(torch.arange(min(shown, len(images)), device=images.device))
    wanted = None if target is None else torch.full((len(some),), target, device=images.device)
    evidence = grad_cam_maps(model, some.inputs, layer=layer, classes=wanted)
    if evidence.maps.ndim != 3:
        raise UsageError(f"the output of the layer {evidence.layer!r} has no height and width; choose an earlier one")
    control = grad_cam_maps(randomized(model, seed), some.inputs, layer=evidence.layer, classes=evidence.classes)
    rows = {"Grad-CAM": evidence.maps}
    try:
        class_maps = cam_maps(model, some.inputs, classes=evidence.classes) if layer is None else None
    except UsageError:
        class_maps = None  # the network is not of the form for which there is a CAM
    if class_maps is not None:
        rows["CAM"] = class_maps.maps
    likeness = [rank_correlation(a, b) for a, b in zip(evidence.maps, control.maps, strict=True)]
    known = [value for value in likeness if value is not None]
    chosen = evidence.classes.unsqueeze(-1)
    numbers = {
        "layer": evidence.layer,
        "map": list(evidence.maps.shape[1:]),
        "explained_class": evidence.classes.tolist(),
        "predicted_class": evidence.logits.argmax(-1).tolist(),
        "true_class": some.y.tolist() if isinstance(some, Labeled) and some.y.ndim == 1 else None,
        "probability": None
        if evidence.logits.shape[-1] == 1  # a single score is not a choice among classes
        else evidence.logits.softmax(-1).gather(-1, chosen).squeeze(-1).tolist(),
        "score": evidence.logits.gather(-1, chosen).squeeze(-1).tolist(),
        "grad_cam": evidence.maps.tolist(),
        "cam": None if class_maps is None else class_maps.maps.tolist(),
        "empty": evidence.empty.tolist(),
        "control": control.maps.tolist(),
        "likeness_to_control": likeness,
        "mean_likeness_to_control": sum(known) / len(known) if known else None,
    }
    note = (
        "CAM may be negative, too; only its positive part is shown. " * (class_maps is not None)
        + "Each map is stretched to its own largest value."
    )
    likeness_is = "" if not known else f"; {sum(known) / len(known):.2f} is their correlation with random weights"
    title = f"Where the evidence for a class lies in {evidence.layer}, {_size(evidence.maps)}{likeness_is}"
    rows["random weights"] = control.maps
    figure = heat_over(some.x, rows, _captions(numbers, labels), title, note)
    return Finding(numbers, figure, _says(numbers))


def rank_correlation(first: Tensor, second: Tensor) -> float | None:
    """Spearman's rank correlation of two maps, from -1 to 1; None where a map is constant.

    >>> rank_correlation(torch.tensor([1.0, 2.0]), torch.tensor([90.0, 10.0]))
    -1.0
    """
    ranks = [rankdata(map_.detach().cpu().numpy(), axis=None) for map_ in (first, second)]
    centered = [rank - rank.mean() for rank in ranks]
    length = math.sqrt((centered[0] @ centered[0]) * (centered[1] @ centered[1]))
    return float(centered[0] @ centered[1] / length) if length > 0 else None


def _from_layer_on(model: nn.Module, inputs: Sequence[Any], layer: str) -> tuple[Tensor, Tensor]:
    """The output of the layer, as a leaf of the graph, and the logits as its function; of several calls, the last."""
    kept: list[Tensor] = []

    def cut(module: nn.Module, given: Any, output: Any) -> Any:
        if not isinstance(output, Tensor) or output.ndim < 3:
            raise UsageError(
                f"the output of the layer {layer!r} is not a feature map, (B, channels, height, width); choose another"
            )
        kept.append(output.detach().requires_grad_())
        return kept[-1].clone()  # which what follows may overwrite in place

    modules = dict(model.named_modules())
    if layer not in modules:
        named(outputs_of(model, inputs), layer)  # says which layers there are
    handle = modules[layer].register_forward_hook(cut)
    try:
        with eval_mode(model), torch.random.fork_rng(devices=[]), torch.enable_grad():
            logits = _logits(model(*inputs))
    finally:
        handle.remove()
    if not kept:
        raise UsageError(f"the layer {layer!r} is not used by the model; choose another layer")
    return kept[-1], logits


def _logits(output: Any) -> Tensor:
    if not isinstance(output, Tensor) or output.ndim != 2:
        got = f"one of shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise UsageError(f"the model must give a tensor of scores, (examples, classes); it gave {got}")
    return output


def _checked(classes: Tensor, logits: Tensor) -> Tensor:
    count = logits.shape[-1]
    if bool((classes < 0).any() | (classes >= count).any()):
        raise UsageError(f"the classes are numbered from 0 to {count - 1} (got {classes.tolist()})")
    return classes


def _readout(layer: nn.Module | None) -> tuple[Tensor | None, Tensor | float]:
    if not isinstance(layer, nn.Linear):
        return None, 0.0
    return layer.weight.detach(), 0.0 if layer.bias is None else layer.bias.detach()


def _size(maps: Tensor) -> str:
    return f"{maps.shape[1]}x{maps.shape[2]} positions"


def _captions(numbers: dict[str, Any], labels: Sequence[str]) -> list[str]:
    if numbers["probability"] is None:
        return [f"score {score:.3g}" for score in numbers["score"]]
    captions = []
    for i, predicted in enumerate(numbers["predicted_class"]):
        explained, truth = numbers["explained_class"][i], numbers["true_class"]
        lines = [f"predicted {_named(predicted, labels)}"]
        if truth:
            lines.append(f"true {_named(truth[i], labels)}")
        lines.append(f"{_named(explained, labels)}: {numbers['probability'][i]:.0%}")
        captions.append("\n".join(lines))
    return captions


def _named(number: int, labels: Sequence[str]) -> str:
    """The name of a class, cut to what fits above an image; its number where it has none."""
    name = labels[number] if number < len(labels) else f"class {number}"
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


def _says(numbers: dict[str, Any]) -> tuple[str, ...]:
    height, width = numbers["map"]
    coarse = " So few show little; an earlier layer has more." if height * width < FEW else ""
    says = [f"The maps are those of {numbers['layer']}, {height}x{width} positions.{coarse}"]
    empty, count = sum(numbers["empty"]), len(numbers["empty"])
    if empty:
        says.append(
            f"Warning: {empty} of {counted(count, 'map')} are empty, since no position of the layer has evidence for "
            "the class; an earlier layer, or another class, may show more."
        )
    likeness = numbers["mean_likeness_to_control"]
    if likeness is None:
        says.append("The maps cannot be compared with those of random weights: one of each two is constant.")
    else:
        verdict = (
            "so they show the image more than what the model has learned"
            if likeness >= ALIKE
            else "so they depend on the weights"
        )
        says.append(f"Their ranks correlate with those of random weights by {likeness:.2f} on average, {verdict}.")
    return tuple(says)
