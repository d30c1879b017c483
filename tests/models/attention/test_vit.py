"""The vision transformer has the published size, reads patches in order, and its maps are those by which it reads."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from deepcanon.core import DataError, UsageError
from deepcanon.data import load_data
from deepcanon.models.attention.vit import ViT, rollout
from deepcanon.train import fit


def small(**options: Any) -> ViT:
    """A model of 4x6 pixels in two colors with patches of 2x2 pixels, all of whose parameters matter."""
    torch.manual_seed(0)
    settings = {"patch": 2, "layers": 2, "heads": 2, "embedding": 8, **options}
    model = ViT(channels=2, height=4, width=6, classes=3, **settings).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def images(count: int = 3) -> Tensor:
    return torch.randn(count, 2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("patch", "layers", "heads", "embedding", "parameters"),
    [(16, 12, 12, 768, 86_567_656), (32, 12, 12, 768, 88_224_232), (16, 24, 16, 1024, 304_326_632)],
    ids=["B/16", "B/32", "L/16"],
)
def test_the_published_sizes(patch: int, layers: int, heads: int, embedding: int, parameters: int) -> None:
    with torch.device("meta"):
        model = ViT(3, 224, 224, 1000, patch=patch, layers=layers, heads=heads, embedding=embedding)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@torch.no_grad()
def test_patches_are_cut_row_by_row_and_mapped_linearly() -> None:
    model, x = small(), images(1)
    weight, bias = model.patch_embedding.weight.numpy(), model.patch_embedding.bias
    assert bias is not None
    embedded = model._embedded(x)[0].numpy()
    positions = model.position_embedding[0].numpy()
    np.testing.assert_allclose(embedded[0], model.class_token[0, 0].numpy() + positions[0])
    picture = x[0].numpy()
    for row in range(2):
        for column in range(3):
            cut = picture[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            wanted = np.tensordot(weight, cut, axes=3) + bias.numpy() + positions[1 + 3 * row + column]
            np.testing.assert_allclose(embedded[1 + 3 * row + column], wanted)


@torch.no_grad()
def test_only_the_position_embedding_says_where_a_patch_is() -> None:
    """Patches that change places change the output, unless the position embeddings are all alike."""
    model, x = small(), images()
    swapped = torch.cat([x[:, :, 2:], x[:, :, :2]], 2)
    assert (model(x) - model(swapped)).abs().min() > 1e-3
    model.position_embedding[:, 1:] = model.position_embedding[:, 1:2].clone()
    torch.testing.assert_close(model(x), model(swapped))


@torch.no_grad()
def test_attention_maps_are_those_by_which_it_reads() -> None:
    model, x = small(), images()
    maps = model.attention_maps(x)
    assert maps.shape == (2, 3, 2, 7, 7)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 3, 2, 7).double())
    h = model._embedded(x)
    for block, weights in zip(model.blocks, maps, strict=True):
        part: Any = block
        values = part.attention.projection(part.attention_norm(h)).chunk(3, -1)[2].unflatten(-1, (2, 4)).transpose(1, 2)
        h = h + part.attention.output((weights @ values).transpose(1, 2).flatten(2))
        h = h + part.down_projection(F.gelu(part.up_projection(part.mlp_norm(h))))
    torch.testing.assert_close(model.head(model.norm(h))[:, 0], model(x))


def test_the_rollout_follows_the_ways_through_all_blocks() -> None:
    maps = torch.rand(3, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(-1)
    one, two, three = ((map[0].numpy() + np.eye(4)) / 2 for map in maps)
    np.testing.assert_allclose(rollout(maps)[0].numpy(), three @ two @ one)


@torch.no_grad()
def test_the_gallery_shows_what_the_class_token_attends_to() -> None:
    model, x = small(), images()
    shown = model.gallery(x)
    assert torch.equal(shown.pop("data"), x)
    low, high = x.min(), x.max()
    maps = model.attention_maps(x).mean(2)
    for name, wanted in zip(shown, (maps[0], maps[-1], rollout(maps)), strict=True):
        picture = shown[name]
        assert picture.shape == x.shape
        shares = (F.avg_pool2d(picture.mean(1), 2) - low) / (high - low)  # patches are of one color
        attended = wanted[:, 0, 1:].reshape(3, 2, 3)
        torch.testing.assert_close(shares, attended / attended.amax((1, 2), keepdim=True))


@pytest.mark.parametrize(
    ("height", "width", "patch"), [(8, 8, 2), (28, 28, 4), (32, 32, 4), (4, 6, 2), (224, 224, 14), (7, 5, 1)]
)
def test_the_patch_suits_the_image(height: int, width: int, patch: int) -> None:
    with torch.device("meta"):
        model = ViT(1, height, width, 2)
    assert model.patch == patch
    assert model.position_embedding.shape[1] == 1 + (height // patch) * (width // patch)


def test_dropout_acts_in_training_only() -> None:
    model, x = small(dropout=0.5), images()
    assert torch.equal(model(x), small()(x))
    model.train()
    assert not torch.equal(model(x), model(x))


def test_wrong_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"an image of 8x12 pixels: patch is one of 1, 2, 4 \(got 3\)"):
        ViT(1, 8, 12, 2, patch=3)
    with pytest.raises(UsageError, match="patch must be at least 1"):
        ViT(1, 8, 8, 2, patch=0)
    with pytest.raises(UsageError, match="must be a multiple of heads"):
        ViT(1, 8, 8, 2, heads=3)
    with pytest.raises(UsageError, match="embedding must be a multiple of 4"):
        ViT(1, 8, 8, 2, heads=3, embedding=9)
    with pytest.raises(UsageError, match="dropout is the probability"):
        ViT(1, 8, 8, 2, dropout=1.0)
    with pytest.raises(DataError, match=r"images of shape \(2, 4, 6\)"):
        small()(torch.zeros(1, 2, 6, 6))


@pytest.mark.slow
def test_it_learns_digits() -> None:
    torch.manual_seed(0)
    model = ViT(1, 8, 8, 10, layers=2, embedding=32)
    result = fit(model, load_data("digits"), quiet=True, epochs=8, lr=3e-3, schedule="cosine:warmup=20")
    assert result.valid["accuracy"] > 0.8
