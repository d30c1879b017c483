"""An image from a caption is torch's own layers on the same weights, and an independent captioner reads it back."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm as norm_of_scipy
from torch import Generator, Tensor, nn
from torch.nn.functional import binary_cross_entropy, conv2d, conv_transpose2d, group_norm, relu

import deepcanon as dc
from deepcanon.core import Captioned, DataError, UsageError
from deepcanon.models.recurrent.caption_to_image import CaptionToImage
from deepcanon.pictures.legibility import faults
from deepcanon.pictures.scene import Scene
from deepcanon.pictures.sequence_pictures import CAPTIONED, illustrated

TOKENS = torch.tensor([[0, 3, 4, 1, -1], [0, 2, 1, -1, 9], [0, 5, 5, 2, 1]])
LENGTHS = torch.tensor([4, 3, 5])


def model(**arguments: Any) -> CaptionToImage:
    torch.manual_seed(0)
    made = CaptionToImage(2, 6, 7, 6, latent=3, hidden=(3, 4), embedding=5, units=6, **arguments)
    return made.double().eval()


def images() -> Tensor:
    return torch.rand(3, 2, 6, 7, generator=Generator().manual_seed(1), dtype=torch.float64)


def states(ours: CaptionToImage) -> list[Tensor]:
    """The states of torch's LSTM after the tokens of each caption, read alone."""
    theirs = nn.LSTM(5, 6, batch_first=True).double()
    theirs.load_state_dict(ours.recurrent.state_dict())
    return [theirs(ours.embedding.weight[TOKENS[row, :end]])[0] for row, end in enumerate(LENGTHS.tolist())]


def drawn(ours: CaptionToImage, z: Tensor) -> Tensor:
    rows = []
    for row, read in enumerate(states(ours)):
        maps = (ours.layout.weight @ torch.cat([z[row], read[-1]]) + ours.layout.bias).view(4, 4).T  # (places, maps)
        scores = (maps @ ours.query.weight.T) @ (read @ ours.key.weight.T).T / math.sqrt(6)
        rows.append((maps + scores.softmax(1) @ read @ ours.value.weight.T).T.view(4, 2, 2))
    layers: list[Any] = list(ours.decoder)
    _, _, mixed, norm, _, second, other, _, last = layers
    maps = relu(group_norm(conv2d(relu(torch.stack(rows)), mixed.weight, mixed.bias, 1, 1), 1, norm.weight, norm.bias))
    maps = conv_transpose2d(maps, second.weight, second.bias, 2, 1, (0, 1))  # 2x2 to 3x4
    maps = relu(group_norm(maps, 1, other.weight, other.bias))
    return conv_transpose2d(maps, last.weight, last.bias, 2, 1, (1, 0)).sigmoid()  # to 6x7


def prior(ours: CaptionToImage) -> tuple[Tensor, Tensor, Tensor]:
    """The log-odds, the means and the logarithms of the scales of the prior, by component."""
    last = torch.stack([read[-1] for read in states(ours)])
    numbers = (last @ ours.components.weight.T + ours.components.bias).view(3, -1, 7)
    return numbers[..., 0], numbers[..., 1:4], numbers[..., 4:]


def test_an_image_is_drawn_by_torchs_own_layers() -> None:
    ours = model()
    found = ours.sample(3, context=(TOKENS, LENGTHS), generator=Generator().manual_seed(5))
    with torch.no_grad():
        odds, mean, log_scale = prior(ours)
        random = Generator().manual_seed(5)
        chosen = odds.softmax(-1).multinomial(1, generator=random).squeeze(1)
        noise = torch.randn(3, 3, generator=random, dtype=torch.float64)
        rows = torch.arange(3)
        z = mean[rows, chosen] + log_scale[rows, chosen].exp() * noise
        torch.testing.assert_close(found, drawn(ours, z), rtol=0, atol=1e-12)


def test_the_loss_is_cross_entropy_and_divergence_in_closed_form() -> None:
    ours, x = model(beta=2.0), images()
    ours.posterior.bias.data[3:] = -40.0  # so that z is its mean
    ours.posterior.weight.data[3:] = 0.0
    with torch.no_grad():
        layers: list[Any] = list(ours.encoder)
        first, norm, _, second, other, _, _ = layers
        maps = relu(group_norm(conv2d(x, first.weight, first.bias, 2, 1), 1, norm.weight, norm.bias))
        maps = relu(group_norm(conv2d(maps, second.weight, second.bias, 2, 1), 1, other.weight, other.bias))
        last = torch.stack([read[-1] for read in states(ours)])
        mean = (torch.cat([maps.flatten(1), last], 1) @ ours.posterior.weight.T + ours.posterior.bias)[:, :3]
        entropy = binary_cross_entropy(drawn(ours, mean), x, reduction="sum") / 3
        terms = ours.loss(Captioned(x, TOKENS, LENGTHS))
        log_q = 3 * (norm_of_scipy.logpdf(0) + 40)  # noise of so small a scale is rounded off
        odds, means, log_scales = (part.numpy() for part in prior(ours))
        each = norm_of_scipy.logpdf(mean.numpy()[:, None], means, np.exp(log_scales)).sum(-1)
        log_p = logsumexp(log_softmax(odds, axis=1) + each, axis=1)
        divergence = torch.tensor((log_q - log_p).mean())
        torch.testing.assert_close(terms["reconstruction"], entropy, rtol=1e-12, atol=0)
        torch.testing.assert_close(terms["kl"], 2 * divergence, rtol=1e-10, atol=0)
        again = ours.given((TOKENS, LENGTHS)).reconstruct(x)
        torch.testing.assert_close(again, drawn(ours, mean), rtol=0, atol=1e-12)


def test_padding_of_a_caption_is_never_read() -> None:
    ours = model()
    other = TOKENS.clone()
    other[0, 4:], other[1, 3:] = 2, 5
    wide = torch.nn.functional.pad(other, (0, 2), value=3)
    wanted = ours.sample(3, context=(TOKENS, LENGTHS), generator=Generator().manual_seed(0))
    for tokens in (other, wide):
        found = ours.sample(3, context=(tokens, LENGTHS), generator=Generator().manual_seed(0))
        assert torch.equal(found, wanted)
    alone = ours.sample(2, context=(TOKENS[1:2, :3]), generator=Generator().manual_seed(0))
    both = ours.sample(2, context=(TOKENS[[1, 1]], LENGTHS[[1, 1]]), generator=Generator().manual_seed(0))
    torch.testing.assert_close(alone, both, rtol=0, atol=1e-12)


def test_what_is_no_caption_or_no_image_is_refused() -> None:
    ours = model()
    with pytest.raises(UsageError, match="conditional: give a caption as context"):
        ours.sample(3)
    with pytest.raises(DataError, match="from 0 to 5; got 6 at position 1 of row 0"):
        ours.given(torch.tensor([[0, 6, 1]]))
    with pytest.raises(UsageError, match="tokens, and their lengths; got 3 tensors"):
        ours.given((TOKENS, LENGTHS, LENGTHS))
    with pytest.raises(
        DataError, match=r"shape \(2, 6, 7\) with values from 0 to 1; got \(2, 6, 7\) with values from 0"
    ):
        ours.prepare([Captioned(2 * images(), TOKENS, LENGTHS)])
    with pytest.raises(UsageError, match="caption_to_image learns from captioned images; digits gives images"):
        dc.Run.train("caption_to_image", "digits")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    words = "caption_to_image:latent=2,hidden=4,embedding=4,units=4"
    dc.Run.train(words, "scenes", out=folder, steps=2, batch_size=8, quiet=True)
    return folder


@pytest.mark.slow
def test_the_command_line_draws_images_of_a_caption(tiny: Path, tmp_path: Path) -> None:
    run = dc.Run(tiny)
    scene = Scene.of(run.model, run.data, seed=0)
    figure = illustrated(scene)["from_captions"]
    shown = [axes.xaxis.label.get_text() for axes in figure.axes if axes.images]
    assert len(shown) == CAPTIONED
    assert all(text.startswith(("a ", "an ")) for text in shown)
    assert faults(figure) == []
    once, again = (run.sample(4, given="A three left of a seven", seed=1) for _ in range(2))
    other = run.sample(4, given="a three", seed=1, out=tmp_path / "s.png")
    assert once.shape == (4, 784)
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert (tmp_path / "s.png").is_file()
    run.sample(4, given="a three", seed=1, out=tmp_path / "s.csv")
    assert len((tmp_path / "s.csv").read_text(encoding="utf-8").splitlines()) == 5
    for wrong in ("a cat", ""):
        with pytest.raises(UsageError, match=r"only captions of the words of its data .*seven"):
            run.sample(4, given=wrong)
    with pytest.raises(UsageError, match="caption_to_image has no guidance"):
        run.sample(4, given="a three", guidance=1.0)
