"""Weights of vision transformers by the names of others give the others' logits."""

import re
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from deepcanon.core import UsageError
from deepcanon.interop.vit_names import load_vit, renamed
from deepcanon.models.attention.vit import ViT


def ours() -> ViT:
    return ViT(3, 8, 12, 5, patch=4, layers=2, heads=4, embedding=16, epsilon=1e-12).eval()


def images() -> Tensor:
    return torch.randn(4, 3, 8, 12, generator=torch.Generator().manual_seed(1))


def hugging_face() -> Any:
    transformers = pytest.importorskip("transformers", reason="Hugging Face's models are not installed")
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        image_size=[8, 12], patch_size=4, num_channels=3, num_labels=5,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases begin at zero, norms at one: no test of where they go
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def test_logits_are_those_of_hugging_face() -> None:
    peer, model, x = hugging_face(), ours(), images()
    load_vit(model, peer.state_dict())
    assert (model(x) - peer(x).logits).abs().max() < 1e-5
    assert peer(x).logits.std() > 0.1


PUBLISHED = {
    r"vit\.layers": "vit.encoder.layer",
    r"attention\.q_proj": "attention.attention.query",
    r"attention\.k_proj": "attention.attention.key",
    r"attention\.v_proj": "attention.attention.value",
    r"attention\.o_proj": "attention.output.dense",
    r"mlp\.fc1": "intermediate.dense",
    r"mlp\.fc2": "output.dense",
}
"""The names in Hugging Face's model and those in the files that it has published, as it renames them itself."""


def test_the_names_of_published_files_mean_the_same() -> None:
    modules = hugging_face().state_dict()
    file = {}
    for name, tensor in modules.items():
        for old, new in PUBLISHED.items():
            name = re.sub(old, new, name)
        file[name] = tensor
    assert "vit.encoder.layer.1.attention.attention.key.weight" in file
    one, other = renamed(modules), renamed(dict(reversed(file.items())))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def timm_shapes(width: int, layers: int, patches: int, patch: int, channels: int, classes: int) -> dict[str, Any]:
    """Names and shapes of timm's ``vision_transformer``, written down from its documented architecture."""
    shapes: dict[str, Any] = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, 1 + patches, width),
        "patch_embed.proj.weight": (width, channels, patch, patch),
        "patch_embed.proj.bias": (width,),
    }
    for i in range(layers):
        for name, outputs, inputs in (
            ("attn.qkv", 3 * width, width), ("attn.proj", width, width),
            ("mlp.fc1", 4 * width, width), ("mlp.fc2", width, 4 * width),
        ):  # fmt: skip
            shapes |= {f"blocks.{i}.{name}.weight": (outputs, inputs), f"blocks.{i}.{name}.bias": (outputs,)}
        for norm in ("norm1", "norm2"):
            shapes |= {f"blocks.{i}.{norm}.weight": (width,), f"blocks.{i}.{norm}.bias": (width,)}
    shapes |= {"norm.weight": (width,), "norm.bias": (width,)}
    return shapes | {"head.weight": (classes, width), "head.bias": (classes,)}


def test_the_base_model_of_timm_loads() -> None:
    with torch.device("meta"):
        model = ViT(3, 224, 224, 1000, patch=16, layers=12, heads=12, embedding=768)
        theirs = {name: torch.empty(shape) for name, shape in timm_shapes(768, 12, 196, 16, 3, 1000).items()}
    found = renamed(theirs)
    assert sum(tensor.numel() for tensor in theirs.values()) == 86_567_656
    assert {name: tensor.shape for name, tensor in found.items()} == {
        name: tensor.shape for name, tensor in model.state_dict().items()
    }


@torch.no_grad()
def test_weights_by_the_names_of_timm_mean_what_they_mean_there() -> None:
    """The logits against timm's formula, written with torch's own functions."""
    random = torch.Generator().manual_seed(0)
    shapes = timm_shapes(16, 2, 6, 4, 3, 5)
    weights = {name: 0.3 * torch.randn(shape, generator=random) for name, shape in shapes.items()}
    model, x = ours(), images()
    load_vit(model, weights)

    def linear(name: str, h: Tensor) -> Tensor:
        return h @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, h: Tensor) -> Tensor:
        return torch.layer_norm(h, (16,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    h = torch.conv2d(x, weights["patch_embed.proj.weight"], weights["patch_embed.proj.bias"], stride=4)
    h = torch.cat([weights["cls_token"].expand(4, -1, -1), h.flatten(2).transpose(1, 2)], 1) + weights["pos_embed"]
    for i in range(2):
        qkv = linear(f"blocks.{i}.attn.qkv", norm(f"blocks.{i}.norm1", h)).reshape(4, 7, 3, 4, 4).permute(2, 0, 3, 1, 4)
        shares = (qkv[0] @ qkv[1].mT / 2).softmax(-1)
        h = h + linear(f"blocks.{i}.attn.proj", (shares @ qkv[2]).transpose(1, 2).reshape(4, 7, 16))
        thought = torch.nn.functional.gelu(linear(f"blocks.{i}.mlp.fc1", norm(f"blocks.{i}.norm2", h)))
        h = h + linear(f"blocks.{i}.mlp.fc2", thought)
    torch.testing.assert_close(model(x), linear("head", norm("norm", h)[:, 0]), rtol=1e-5, atol=1e-5)


def test_weights_of_another_model_are_refused() -> None:
    weights = {name: torch.zeros(shape) for name, shape in timm_shapes(16, 2, 6, 4, 3, 5).items()}
    with pytest.raises(UsageError, match=r"not a ViT of this size: it also has blocks.0.ls1.gamma"):
        load_vit(ours(), {**weights, "blocks.0.ls1.gamma": torch.zeros(16)})
    with pytest.raises(UsageError, match=r"position_embedding has the shape \(1, 5, 16\) in the file and \(1, 7, 16\)"):
        load_vit(ours(), {**weights, "pos_embed": torch.zeros(1, 5, 16)})
