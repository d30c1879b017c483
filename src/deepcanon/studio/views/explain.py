"""Panels that explain a model: activation maps, Grad-CAM and its control, receptive fields, attention, the next token.

Which panels a run offers is decided by what its model can do and by its data, never by its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from deepcanon.core import UsageError, eval_mode
from deepcanon.core.roles import Attends, Decodes, Encodes, Predicts, Searches, Translates
from deepcanon.decoding import filtered
from deepcanon.insights._engines.layers import images_of, outputs_of
from deepcanon.insights.activation_maps import measured_maps
from deepcanon.insights.grad_cam import grad_cam, randomized
from deepcanon.insights.receptive_field import measured_fields
from deepcanon.pictures.sequence_pictures import attention_in
from deepcanon.runs import text
from deepcanon.studio.views.latent import codes
from deepcanon.studio.views.looking import Look, look_into
from deepcanon.train.film import frames_in

OTHERS = 63
"""So many further examples say which channels are dead, and smooth an effective receptive field."""
CHANNELS, TOP = 8, 20
LONGEST = 400
"""The most characters of a prompt."""


def panels(run: Path) -> dict[str, Any]:
    """What can be looked at in a run, and the examples that there are."""
    look = look_into(run)
    model, films = look.model, frames_in(run / "pictures")
    layers = _layers(look)
    offered = {
        "activations": bool(layers),
        "grad_cam": bool(layers) and isinstance(model, Predicts) and "classes" in look.data.sizes,
        "receptive_field": bool(layers),
        "attention": _attends(look),
        "next_token": isinstance(model, Searches) and not isinstance(model, Translates) and bool(look.data.vocabulary),
        "latent": _codes(look) >= 2,
        "film": bool(films),
    }
    return {
        "model": model.name(),
        "data": look.data.name,
        "splits": look.splits,
        "labels": list(look.data.labels),
        "layers": layers,
        "panels": [name for name, there in offered.items() if there],
        "decodes": isinstance(model, Decodes),
        "films": films,
    }


def activations(run: Path, split: str, number: int, *, control: bool = False) -> dict[str, Any]:
    """The strongest feature maps of each layer for one image; as a control, those of random weights."""
    look = look_into(run)
    model = randomized(look.model) if control else look.model
    numbers, says = measured_maps(model, _with_others(look, split, number), channels=CHANNELS)
    return {"numbers": numbers, "says": list(says)}


def class_maps(
    run: Path, split: str, number: int, *, target: int | None = None, layer: str | None = None
) -> dict[str, Any]:
    """Grad-CAM, and CAM where there is one, of one image, with the maps of random weights as a control."""
    look = look_into(run)
    found = grad_cam(
        look.model, look.rows(split, [number]), layer=layer, target=target, shown=1, labels=look.data.labels
    )
    return {"numbers": dict(found.numbers), "says": list(found.says)}


def fields(run: Path, split: str, number: int, *, layer: str | None = None) -> dict[str, Any]:
    """The theoretical receptive field of the middle unit of each layer, and the heat of its effective one."""
    look = look_into(run)
    numbers, says = measured_fields(look.model, _with_others(look, split, number), layer)
    return {"numbers": numbers, "says": list(says)}


def attention(run: Path, split: str, number: int, *, control: bool = False) -> dict[str, Any]:
    """The attention of every head of every layer in one example, (layers, heads, T, T), and the names of positions."""
    look = look_into(run)
    if not isinstance(look.model, Attends):
        raise UsageError(f"{look.model.name()} has no attention maps")
    model = randomized(look.model) if control else look.model
    with torch.no_grad(), eval_mode(model):
        maps, names = attention_in(model, look.rows(split, [number]))
    return {"names": names, "layers": len(maps), "heads": maps.shape[1], "maps": maps.double().tolist()}


def next_token(run: Path, prompt: str, *, temperature: float = 1.0, top: int = TOP) -> dict[str, Any]:
    """The probabilities of the token after a prompt, the likeliest first, and what the temperature makes of them."""
    look = look_into(run)
    model, info = look.model, look.run.info["data"]
    if not isinstance(model, Searches) or isinstance(model, Translates):
        raise UsageError(f"{model.name()} does not continue a prompt")
    if len(prompt) > LONGEST:
        raise UsageError(f"a prompt has at most {LONGEST} characters (got {len(prompt)})")
    if not 0 < temperature <= 100:
        raise UsageError(f"the temperature is above 0 and at most 100 (got {temperature:g})")
    tokens = text.encode(prompt or None, info)
    log_p = next_log_probs(model, tokens, len(info["vocabulary"]))
    p, heated = log_p.exp(), filtered(log_p.unsqueeze(0), temperature).softmax(-1)[0]
    order = log_p.argsort(descending=True)
    entropy = float(-(heated * heated.clamp_min(1e-300).log()).sum())
    return {
        "prompt": prompt,
        "read": [info["vocabulary"][code] for code in tokens[0].tolist()],
        "temperature": temperature,
        "vocabulary": len(info["vocabulary"]),
        "entropy": entropy,
        "tokens": [
            {"token": info["vocabulary"][code], "probability": float(p[code]), "heated": float(heated[code])}
            for code in order[:top].tolist()
        ],
    }


def next_log_probs(model: Any, prompt: Tensor, vocabulary: int) -> Tensor:
    """The log-probability of every token after a prompt, (vocabulary,): a beam search of one step keeps them all."""
    beams = model.beam_search(prompt, 1, beams=vocabulary)
    found = torch.full((vocabulary,), -torch.inf, dtype=torch.float64)
    found[beams.tokens[0, :, -1]] = beams.log_prob[0].double()
    return found


def _with_others(look: Look, split: str, number: int) -> Any:
    """An example, and some others after it."""
    others = [other for other in range(min(OTHERS + 1, look.splits.get(split, 0))) if other != number]
    return look.rows(split, [number, *others[:OTHERS]])


def _layers(look: Look) -> list[str]:
    """The layers with feature maps, in their order: none where the model does not convolve images."""
    if not any(isinstance(module, nn.Conv2d) for module in look.model.modules()):
        return []
    one = look.rows(next(iter(look.splits)), [0])
    try:
        images_of(one)
        outputs = outputs_of(look.model, one.inputs)
    except Exception:  # it is called in another way, or convolves something else
        return []
    return list(dict.fromkeys(output.name for output in outputs if output.is_map))


def _attends(look: Look) -> bool:
    if not isinstance(look.model, Attends):
        return False
    try:
        attention_in(look.model, look.rows(next(iter(look.splits)), [0]))
    except Exception:  # its attention is that of several inputs
        return False
    return True


def _codes(look: Look) -> int:
    """The number of dimensions of a code; 0 where there is none of one tensor."""
    if not isinstance(look.model, Encodes):
        return 0
    try:
        return codes(look, look.rows(next(iter(look.splits)), [0])).shape[1]
    except Exception:  # several codes, or one of what is not among the examples
        return 0
