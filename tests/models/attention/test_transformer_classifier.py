"""The encoder is torch.nn.TransformerEncoder on the same weights; without positions it knows no order."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import deepcanon as dc
from deepcanon.core import LabeledSequences, UsageError
from deepcanon.interop.transformer_names import load_transformer, to_transformer
from deepcanon.models.attention.transformer_classifier import TransformerClassifier

POOLINGS = ["mean", "sum", "attention", "class"]


def model(**options: Any) -> TransformerClassifier:
    torch.manual_seed(0)
    made = TransformerClassifier(**{"features": 3, "classes": 4, "heads": 2, "embedding": 8, "inner": 20, **options})
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return made.double().eval()


def rows() -> tuple[Tensor, Tensor]:
    return torch.randn(3, 6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64), torch.tensor(
        [6, 2, 4]
    )


@pytest.mark.parametrize("post_norm", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@torch.no_grad()
def test_the_weights_of_torch_load_and_agree_and_go_back(post_norm: bool, activation: str) -> None:
    layer: Any = nn.TransformerEncoderLayer(8, 2, 20, 0.0, activation, batch_first=True, norm_first=not post_norm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a fast path is not taken
        theirs = nn.TransformerEncoder(layer, 2, None if post_norm else nn.LayerNorm(8)).double()
    for parameter in theirs.parameters():
        parameter.copy_(0.4 * torch.randn_like(parameter))
    ours = model(post_norm=post_norm, activation=activation, pooling="mean")
    load_transformer(ours, theirs.state_dict())
    x, lengths = rows()
    padding = torch.arange(6) >= lengths[:, None]
    h = theirs(ours.embedding(x) + dc.nn.sinusoidal(6, 8, dtype=torch.float64), src_key_padding_mask=padding)
    mean = h.masked_fill(padding.unsqueeze(2), 0).sum(1) / lengths.unsqueeze(1)
    torch.testing.assert_close(ours(x, lengths), ours.head(mean), rtol=1e-10, atol=1e-12)
    back = to_transformer(ours)
    assert back.keys() == theirs.state_dict().keys()
    assert all(torch.equal(value, back[name]) for name, value in theirs.state_dict().items())
    with pytest.raises(UsageError, match=r"not a torch.nn.TransformerEncoder of this size"):
        load_transformer(model(layers=1, post_norm=post_norm), theirs.state_dict())


@pytest.mark.parametrize("pooling", POOLINGS)
@torch.no_grad()
def test_the_order_means_nothing_without_positions_and_something_with_them(pooling: str) -> None:
    x, _ = rows()
    order = torch.randperm(6, generator=torch.Generator().manual_seed(2))
    for positions in ("none", "sinusoidal", "learned", "rotary", "relative"):
        ours = model(positions=positions, pooling=pooling, length=6)
        same = torch.allclose(ours(x[:, order]), ours(x), rtol=0, atol=1e-12)
        assert same == (positions == "none"), positions
        labels = model(positions=positions, pooling=pooling, length=6, every_position=True)
        moved = torch.allclose(labels(x[:, order]), labels(x)[:, order], rtol=0, atol=1e-12)
        assert moved == (positions == "none"), positions


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("every_position", [False, True])
@torch.no_grad()
def test_padding_counts_in_no_pooling(pooling: str, every_position: bool) -> None:
    ours, (x, lengths) = model(pooling=pooling, every_position=every_position), rows()
    together = ours(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = ours(x[row : row + 1, :length])[0]
        torch.testing.assert_close(alone, together[row, :length] if every_position else together[row])


@torch.no_grad()
def test_poolings_are_what_they_are_called() -> None:
    x, lengths = rows()
    states = model(every_position=True)
    states.head = nn.Identity()  # type: ignore[assignment]
    h = states(x, lengths)
    for pooling in ("mean", "sum", "attention"):
        ours = model(pooling=pooling)
        ours.load_state_dict({**ours.state_dict(), **states.state_dict()})
        for row, length in enumerate(lengths.tolist()):
            some = h[row, :length]
            weights = (some @ ours.query).softmax(0) if pooling == "attention" else torch.ones(length).double()
            weights = weights / length if pooling == "mean" else weights
            torch.testing.assert_close(ours(x, lengths)[row], ours.head(weights @ some))


@torch.no_grad()
def test_attention_maps_are_probabilities_of_what_is_no_padding() -> None:
    ours, (x, lengths) = model(pooling="class"), rows()
    maps = ours.attention_maps(x, lengths)
    assert maps.shape == (2, 3, 2, 7, 7)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 3, 2, 7).double())
    assert not maps[:, 1, :, :, 3:].any()


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="pooling must be one of"):
        model(pooling="max")
    with pytest.raises(UsageError, match="learned positions are as many as the longest row has tokens"):
        model(positions="learned")
    with pytest.raises(UsageError, match="give either features or vocab"):
        model(vocab=5)
    with pytest.raises(UsageError, match="needs either classes or targets"):
        model(targets=2)


@pytest.mark.slow
def test_it_labels_each_token_by_its_neighbors() -> None:
    """Whether the token before is larger: a class at every position, which needs positions."""
    x = torch.randint(8, (600, 10), generator=torch.Generator().manual_seed(0))
    before = torch.cat([x[:, :1], x[:, :-1]], 1)
    y = (before > x).long()
    data = dc.data.of(x, y, lengths=torch.full((600,), 10))
    assert isinstance(data.train, LabeledSequences)
    right = {}
    for positions in ("relative", "none"):
        torch.manual_seed(0)
        sizes: dict[str, Any] = {"vocab": 8, "classes": 2, "layers": 1, "embedding": 32, "positions": positions}
        ours = TransformerClassifier(every_position=True, **sizes)
        dc.fit(ours, data, steps=150, batch_size=64, lr=1e-2, quiet=True, evaluate=False)
        right[positions] = float((ours.eval().predict(x) == y).double().mean())
    assert right["relative"] > 0.96
    assert right["none"] < 0.85
