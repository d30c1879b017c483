"""Perturbations keep what they must: shapes, types, means, pixels that are only moved; 0 is nothing at all."""

import pytest
import torch
from torch import Generator, Tensor

from deepcanon.augment.perturbations import contrasted, cut_out, flipped, noisy, shifted, strongly, weakly
from deepcanon.core import DataError


def images(count: int = 64, side: int = 8) -> Tensor:
    return torch.rand(count, 2, side, side, generator=Generator().manual_seed(0))


def seeded() -> Generator:
    return Generator().manual_seed(1)


def test_strength_zero_is_the_batch_itself_and_draws_nothing() -> None:
    state = torch.get_rng_state()
    for x in (images(), torch.randn(5, 3, generator=seeded())):
        assert weakly(x, 0.0) is x
        assert strongly(x, 0.0) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_the_generator_decides_alone() -> None:
    for x in (images(), torch.randn(64, 3, generator=seeded())):
        for perturb in (weakly, strongly):
            state = torch.get_rng_state()
            once = perturb(x, 0.5, flip=True, generator=seeded())
            assert torch.equal(torch.get_rng_state(), state)
            assert torch.equal(once, perturb(x, 0.5, flip=True, generator=seeded()))
            assert not torch.equal(once, perturb(x, 0.5, flip=True))
            assert once.shape == x.shape


def test_noise_has_its_standard_deviation() -> None:
    x = torch.ones(20_000, 3, dtype=torch.float64)
    noise = noisy(x, 0.3, seeded()) - x
    assert noise.dtype == torch.float64
    assert noise.std().item() == pytest.approx(0.3, rel=0.01)
    assert noise.mean().item() == pytest.approx(0, abs=0.01)
    with pytest.raises(DataError, match="real numbers only"):
        noisy(torch.ones(2, 2, dtype=torch.long), 0.1)


def test_each_image_is_shifted_by_itself_and_all_shifts_occur() -> None:
    x = images(count=400)
    moved = shifted(x, 1, seeded())
    found = set()
    for before, after in zip(x, moved, strict=True):
        padded = torch.nn.functional.pad(before.unsqueeze(0), (1, 1, 1, 1), mode="replicate")[0]
        places = [(i, j) for i in range(3) for j in range(3) if torch.equal(padded[:, i : i + 8, j : j + 8], after)]
        assert len(places) == 1
        found.add(places[0])
    assert len(found) == 9


def test_about_half_of_the_images_are_mirrored() -> None:
    x = images(count=2000, side=3)
    seen = flipped(x, seeded())
    mirrored = (seen == x.flip(3)).flatten(1).all(1)
    assert ((seen == x).flatten(1).all(1) ^ mirrored).all()
    assert mirrored.double().mean().item() == pytest.approx(0.5, abs=0.04)


def test_contrast_keeps_the_mean_and_scales_the_rest() -> None:
    x = images()
    seen = contrasted(x, 0.5, seeded())
    torch.testing.assert_close(seen.mean((1, 2, 3)), x.mean((1, 2, 3)))
    factor = seen.std((1, 2, 3)) / x.std((1, 2, 3))
    assert 0.5 <= factor.min() < 0.7
    assert 1.3 < factor.max() <= 1.5


def test_a_square_is_cut_out_and_all_else_stays() -> None:
    x = images(count=500)
    seen = cut_out(x, 4, seeded())
    gone = (seen != x).any(1)  # (B, height, width)
    assert (seen == torch.where(gone.unsqueeze(1), x.mean((1, 2, 3), keepdim=True), x)).all()
    rows, columns = gone.any(2).sum(1), gone.any(1).sum(1)
    assert torch.equal(gone.sum((1, 2)), rows * columns)  # a rectangle
    assert rows.max() == columns.max() == 4
    assert rows.min() == columns.min() == 2  # at the border only a part of the square is inside
    assert gone.any(0).all()  # no pixel is safe


def test_the_strengths_of_images_are_parts_of_their_side() -> None:
    x = images(side=8)
    assert torch.equal(weakly(x, 0.25, generator=seeded()), shifted(x, 2, seeded()))
    assert weakly(x, 0.05) is x  # less than half a pixel
    seen = strongly(torch.ones(64, 1, 8, 8), 0.5, generator=seeded())
    torch.testing.assert_close(seen, torch.ones(64, 1, 8, 8))  # a blank image has nothing to lose
