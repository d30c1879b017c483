"""The map of codes: points are codes, what is decoded is what the decoder gives, ways end at their examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import deepcanon as dc
from deepcanon.studio.views import explain, latent

QUICK: dict[str, Any] = {"steps": 3, "quiet": True, "evaluate": False, "pictures": False}


@pytest.fixture(scope="module")
def vae(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dc.Run.train("vae:hidden=8,latent=2", "digits", out=tmp_path_factory.mktemp("runs") / "vae", **QUICK).dir


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dc.Run.train("vae:hidden=8,latent=5", "digits", out=tmp_path_factory.mktemp("runs") / "deep", **QUICK).dir


def pixels(run: Any, x: torch.Tensor) -> list[float]:
    low, high = float(run.data.test.x.min()), float(run.data.test.x.max())
    found: list[float] = ((x.flatten() - low) / (high - low)).clamp(0, 1).tolist()
    return found


def test_the_map_has_the_codes_of_examples_and_decodes_them(vae: Path) -> None:
    run: Any = dc.Run(vae)
    found = latent.latent_map(vae, "test")
    with torch.no_grad():
        codes = run.model.encode(run.data.test.x[found["numbers"]]).mean
        decoded = run.model.decode(codes[4:5]).mean
    assert torch.equal(torch.tensor(found["points"], dtype=torch.float64), codes.double())
    assert found["classes"] == run.data.test.y[found["numbers"]].tolist()
    assert found["axes"] == ["latent 1", "latent 2"]
    [shown] = latent.decoded(vae, "test", [found["points"][4]])
    assert shown["values"] == pytest.approx(pixels(run, decoded[0]), abs=2e-4)
    assert "latent" in explain.panels(vae)["panels"]


def test_a_point_of_the_plane_of_components_is_decoded_from_the_code_that_lies_there(deep: Path) -> None:
    run: Any = dc.Run(deep)
    found = latent.latent_map(deep, "test")
    assert found["dimensions"] == 5
    assert "of the variance" in found["axes"][0]
    with torch.no_grad():
        codes = run.model.encode(run.data.test.x).mean.double()
        center, plane = codes.mean(0), torch.linalg.svd(codes - codes.mean(0), full_matrices=False)[2][:2]
        inside = center + (codes[3] - center) @ plane.T @ plane  # signs of components cancel
        decoded = run.model.decode(inside.float().unsqueeze(0)).mean
    [shown] = latent.decoded(deep, "test", [found["points"][3]])
    assert shown["values"] == pytest.approx(pixels(run, decoded[0]), abs=2e-4)


def test_a_way_goes_straight_from_one_code_to_another(deep: Path) -> None:
    run: Any = dc.Run(deep)
    found = latent.interpolated(deep, "test", 3, 9, steps=5)
    with torch.no_grad():
        a, b = run.model.encode(run.data.test.x[[3, 9]]).mean
        ways = [run.model.decode(((1 - t) * a + t * b).unsqueeze(0)).mean for t in (0, 0.25, 0.5, 0.75, 1)]
    for shown, expected in zip(found["examples"], ways, strict=True):
        assert shown["values"] == pytest.approx(pixels(run, expected[0]), abs=2e-4)
    first = latent.latent_map(deep, "test")["points"][3]
    assert found["points"][0] == pytest.approx(first, abs=1e-5)
    assert [end["number"] for end in found["ends"]] == [3, 9]
    with pytest.raises(dc.UsageError, match="at most 32"):
        latent.interpolated(deep, "test", 0, 1, steps=33)


def test_a_conditional_decoder_is_given_what_the_example_has(tmp_path: Path) -> None:
    run: Any = dc.Run.train("conditional_vae:hidden=8,latent=2", "digits", out=tmp_path / "run", **QUICK)
    number = int((run.data.test.y == 6).nonzero()[0])
    [shown] = latent.decoded(run.dir, "test", [[0.5, -0.5]], number)
    with torch.no_grad():
        expected = run.model.given(6).decode(torch.tensor([[0.5, -0.5]])).mean
    assert shown["values"] == pytest.approx(pixels(run, expected[0]), abs=2e-4)


def test_only_frames_of_the_film_are_read(vae: Path) -> None:
    frames = vae / "pictures" / "film"
    frames.mkdir(parents=True)
    (frames / "samples-4.png").write_bytes(b"a picture")
    assert latent.film(vae) == {"samples": [4]}
    assert latent.frame(vae, "samples", 4) == b"a picture"
    for name, step in (("samples", 5), ("../../model", 4), ("", 4)):
        with pytest.raises(dc.UsageError, match="no such frame"):
            latent.frame(vae, name, step)
    (vae.parent / "secret-9.png").write_bytes(b"a secret")
    (frames / "samples-9.png").symlink_to(vae.parent / "secret-9.png")
    with pytest.raises(dc.UsageError, match="link"):
        latent.frame(vae, "samples", 9)
