"""Motions of whole batches give what scipy.ndimage gives image by image, and are drawn for each example alone."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
from scipy import ndimage
from torch import Generator, Tensor

from deepcanon.augment.motions import Augment, Motion
from deepcanon.core import DataError, UsageError

EVERYTHING = Augment(crop=0.2, flip=0.5, rotate=20, shear=0.2, stretch=0.2, translate=0.1, lens=0.2)
HEIGHT, WIDTH = 21, 32

Pixels = npt.NDArray[np.float64]


def images(count: int = 4, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(count, 2, HEIGHT, WIDTH, dtype=dtype, generator=Generator().manual_seed(0))


def only(count: int = 4, **changes: float | tuple[float, float]) -> Motion:
    same = {name: np.array([value] * count) for name, value in changes.items()}
    return replace(Motion.none(count), **same)


def from_the_center(matrix: Pixels, image: Pixels) -> Pixels:
    """Scipy's affine map about the center, for a matrix in its own order: down, then right."""
    center = (np.array(image.shape) - 1) / 2
    moved: Pixels = ndimage.affine_transform(image, matrix, center - matrix @ center, order=1, mode="nearest")
    return moved


def same_inside(ours: Tensor, theirs: list[Pixels], before: Tensor, motion: Motion) -> None:
    """Equality to 1e-4 wherever all that is looked at lies in the image, which must be most of it."""
    inside = motion.apply(torch.ones_like(before), "zeros") > 1 - 1e-9
    assert inside.double().mean() > 0.5
    expected = torch.from_numpy(np.stack(theirs)).view_as(ours)
    assert (ours.double() - expected)[inside].abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("angle", [17.0, -40.0])
def test_rotations_are_those_of_scipy(angle: float, dtype: torch.dtype) -> None:
    x, motion = images(dtype=dtype), only(rotate=angle)
    theirs = [ndimage.rotate(image, angle, reshape=False, order=1) for image in x.double().flatten(0, 1).numpy()]
    same_inside(motion.apply(x), theirs, x.double(), motion)


def test_translations_are_those_of_scipy() -> None:
    x, motion = images(), only(translate=(2.3, -1.6))
    theirs = [ndimage.shift(image, (-1.6, 2.3), order=1) for image in x.flatten(0, 1).numpy()]
    same_inside(motion.apply(x), theirs, x, motion)


def test_shears_and_stretches_are_the_affine_maps_of_scipy() -> None:
    x = images()
    for motion, matrix in (
        (only(shear=0.3), np.array([[1.0, 0.0], [-0.3, 1.0]])),
        (only(stretch=(1.3, 0.9)), np.diag([1 / 0.9, 1 / 1.3])),
    ):
        theirs = [from_the_center(matrix, image) for image in x.flatten(0, 1).numpy()]
        same_inside(motion.apply(x), theirs, x, motion)


def test_a_crop_is_a_part_of_the_image_enlarged() -> None:
    """Half of each side from the top right corner: its pixels' edges, not centers, lie on those of the image."""
    x, motion = images(), only(crop=0.5, corner=(1.0, -1.0))
    down, right = (0.5 * (np.arange(n) + 0.5) for n in (HEIGHT, WIDTH))
    coordinates = np.meshgrid(down - 0.5, right + WIDTH / 2 - 0.5, indexing="ij")
    theirs = [ndimage.map_coordinates(image, coordinates, order=1, mode="nearest") for image in x.flatten(0, 1).numpy()]
    same_inside(motion.apply(x), theirs, x, motion)


def test_a_lens_moves_pixels_along_the_radius() -> None:
    x, motion = images(), only(lens=-0.2)
    down, right = np.meshgrid(np.arange(HEIGHT) - (HEIGHT - 1) / 2, np.arange(WIDTH) - (WIDTH - 1) / 2, indexing="ij")
    factor = 1 - 0.2 * (down**2 + right**2) / ((HEIGHT / 2) ** 2 + (WIDTH / 2) ** 2)
    coordinates = [down * factor + (HEIGHT - 1) / 2, right * factor + (WIDTH - 1) / 2]
    theirs = [ndimage.map_coordinates(image, coordinates, order=1) for image in x.flatten(0, 1).numpy()]
    same_inside(motion.apply(x), theirs, x, motion)


def test_a_mirrored_image_is_the_flipped_one_and_no_motion_is_none() -> None:
    x = images()
    torch.testing.assert_close(only(mirror=-1.0).apply(x), x.flip(3), rtol=0, atol=1e-12)
    torch.testing.assert_close(Motion.none(4).apply(x), x, rtol=0, atol=1e-12)


def test_all_motions_together_follow_one_another_in_the_order_that_is_stated() -> None:
    """Scipy maps the coordinates of one step after the other; only the interpolation is done once."""
    x = images()
    motion = EVERYTHING.motion(torch.arange(4), WIDTH, HEIGHT, seed=1, epoch=2)
    rho = (HEIGHT / 2) ** 2 + (WIDTH / 2) ** 2
    theirs = []
    for i, item in enumerate(x.numpy()):
        v, u = np.meshgrid(np.arange(HEIGHT) - (HEIGHT - 1) / 2, np.arange(WIDTH) - (WIDTH - 1) / 2, indexing="ij")
        factor = 1 + motion.lens[i].item() * (u**2 + v**2) / rho
        u, v = factor * u - motion.translate[i, 0].item(), factor * v - motion.translate[i, 1].item()
        u, v = u / motion.stretch[i, 0].item(), v / motion.stretch[i, 1].item()
        u = u - motion.shear[i].item() * v
        turn = np.deg2rad(motion.rotate[i].item())
        u, v = np.cos(turn) * u - np.sin(turn) * v, np.sin(turn) * u + np.cos(turn) * v
        u = u * motion.mirror[i].item()
        crop, corner = motion.crop[i].item(), motion.corner[i]
        u = crop * u + corner[0] * (1 - crop) * WIDTH / 2 + (WIDTH - 1) / 2
        v = crop * v + corner[1] * (1 - crop) * HEIGHT / 2 + (HEIGHT - 1) / 2
        theirs += [ndimage.map_coordinates(image, [v, u], order=1) for image in item]
    same_inside(motion.apply(x), theirs, x, motion)


def test_a_rotation_is_undone_by_its_inverse() -> None:
    down, right = torch.meshgrid(torch.linspace(-2, 2, 64), torch.linspace(-2, 2, 64), indexing="ij")
    x = (-(down**2) - (right - 0.5) ** 2).exp().double().expand(4, 1, 64, 64)
    back = only(rotate=-25.0).apply(only(rotate=25.0).apply(x))
    assert (back - x)[..., 16:48, 16:48].abs().max() < 5e-3  # what two interpolations of a smooth image lose


def test_an_example_is_changed_alike_in_every_batch_and_anew_in_every_epoch() -> None:
    x, index = images(count=16, dtype=torch.float32), torch.arange(100, 116)
    state = torch.get_rng_state()
    whole = EVERYTHING(x, index, seed=0, epoch=0)
    some = torch.tensor([11, 3, 7])
    drawn, alone = (EVERYTHING.motion(i, WIDTH, HEIGHT, seed=0, epoch=0) for i in (index, index[some]))
    assert (alone.matrix == drawn.matrix[some]).all()
    torch.testing.assert_close(EVERYTHING(x[some], index[some], seed=0, epoch=0), whole[some])
    assert torch.equal(torch.get_rng_state(), state)
    for seed, epoch in ((0, 1), (1, 0)):
        assert not torch.isclose(EVERYTHING(x, index, seed=seed, epoch=epoch), whole).flatten(1).all(1).any()


def test_motions_stay_within_what_is_allowed_and_reach_it() -> None:
    motion = EVERYTHING.motion(torch.arange(4000), WIDTH, HEIGHT, seed=0, epoch=0)
    for drawn, low, high in (
        (motion.crop, 0.8, 1.0),
        (motion.rotate, -20.0, 20.0),
        (motion.shear, -0.2, 0.2),
        (motion.stretch[:, 1], 1 / 1.2, 1.2),
        (motion.translate[:, 0], -0.1 * WIDTH, 0.1 * WIDTH),
        (motion.translate[:, 1], -0.1 * HEIGHT, 0.1 * HEIGHT),
        (motion.lens, -0.2, 0.2),
    ):
        assert low <= drawn.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < drawn.max() <= high
    assert (motion.mirror < 0).mean() == pytest.approx(0.5, abs=0.03)


def test_strength_zero_is_the_batch_itself() -> None:
    x = images()
    assert Augment()(x, torch.arange(4), seed=0, epoch=0) is x


def test_what_lies_outside_is_what_was_asked_for() -> None:
    x, away = torch.ones(4, 1, 8, 8), only(translate=(4.0, 0.0))
    assert away.apply(x, "zeros")[..., :4].eq(0).all()
    assert away.apply(x, "border").eq(1).all()


def test_mistakes_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="lens goes from 0 to a third"):
        Augment(lens=0.5)
    with pytest.raises(UsageError, match="crop goes from 0 to below 1"):
        Augment(crop=1)
    with pytest.raises(UsageError, match="rotate is the largest change"):
        Augment(rotate=-5)
    with pytest.raises(DataError, match="each of 4 images needs its index"):
        EVERYTHING(images(), torch.arange(3), seed=0, epoch=0)
    with pytest.raises(DataError, match="images of real numbers"):
        EVERYTHING(torch.zeros(2, 5), torch.arange(2), seed=0, epoch=0)
