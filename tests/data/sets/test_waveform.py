"""Waveforms: tokens of known tones, and the entropy of their noise by drawing."""

import torch

from deepcanon.data.load import load_data
from deepcanon.data.mu_law import from_mu_law, to_mu_law
from deepcanon.data.sets.waveform import LENGTH, LEVELS, NOISE, noise_entropy, tones


def test_tokens_are_the_tones_but_for_noise_and_rounding() -> None:
    data = load_data("waveform")
    assert data.train.x.shape == (2000, LENGTH + 1)
    tone = torch.from_numpy(tones(200, seed=2))
    found = from_mu_law(data.split("test").x, LEVELS).double()
    rounding = torch.tensor(data.preprocessing["amplitudes"]).diff().max() / 2
    assert float((found - tone).abs().max()) < 6 * NOISE + float(rounding)
    assert not torch.equal(data.train.x[:200], data.split("test").x)


def test_the_entropy_of_the_noise_is_that_of_drawn_tokens() -> None:
    tone = torch.tensor([-0.7, 0.0, 0.31], dtype=torch.float64)
    noise = NOISE * torch.randn(200_000, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for place, wanted in enumerate(noise_entropy(tone).tolist()):
        shares = to_mu_law(tone[place] + noise[:, place], LEVELS).bincount(minlength=LEVELS) / len(noise)
        assert abs(float(torch.special.entr(shares).sum()) - wanted) < 0.01
