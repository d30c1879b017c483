"""Depth doubles the linear pieces with every layer where width adds two: counted exactly at equal parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from deepcanon import catalogue
from deepcanon.insights._engines.regions import regions_on_line
from deepcanon.studies.depth_and_width import depth_and_width, sawtooth, width_for, zigzag

ENDS = (torch.zeros(1), torch.ones(1))


def size(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize("depth", [1, 2, 5, 11])
def test_a_sawtooth_of_so_many_layers_has_two_to_that_power_pieces(depth: int) -> None:
    net, wide = sawtooth(depth), zigzag(2 * depth)
    line = regions_on_line(net, *ENDS)
    assert line.regions == 2**depth
    np.testing.assert_allclose(line.joints.numpy(), np.arange(1, 2**depth) / 2**depth, atol=1e-12)
    assert regions_on_line(wide, *ENDS).regions == 2 * depth + 1
    assert size(net) == size(wide) == 6 * depth + 1


def test_a_sawtooth_is_the_triangle_wave() -> None:
    x = torch.linspace(0, 1, 999, dtype=torch.float64)
    wave = 1 - (x * 8 % 2 - 1).abs()
    assert torch.allclose(sawtooth(3)(x.unsqueeze(1))[:, 0], wave, rtol=0, atol=1e-12)


def test_widths_come_near_to_the_parameters_asked_for() -> None:
    mlp = catalogue.find("mlp")
    for depth in (1, 2, 3, 5):
        width = width_for(depth, 301)
        sizes = [size(mlp(features=1, targets=1, hidden=(near,) * depth)) for near in (width - 1, width, width + 1)]
        assert abs(sizes[1] - 301) == min(abs(each - 301) for each in sizes)


@pytest.mark.slow
def test_the_finding_holds_what_was_counted() -> None:
    state = torch.get_rng_state()
    found = depth_and_width(
        catalogue.find("mlp"), deepest=5, parameters=61, depths=(1, 2), folds=2, epochs=60, repeats=2
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert [each["deep"] for each in found.numbers["built"]] == [2, 4, 8, 16, 32]
    assert [each["wide"] for each in found.numbers["built"]] == [3, 5, 7, 9, 11]
    assert found.numbers["built"][-1]["parameters"] == 31
    assert [(each["depth"], each["width"]) for each in found.numbers["trained"]] == [(1, 20), (2, 6)]
    for each in found.numbers["trained"]:
        fitted, wanted = np.array(each["fit"]), np.array(found.numbers["sawtooth"])
        assert any(mse == pytest.approx(float(np.mean((fitted - wanted) ** 2)), rel=1e-4) for mse in each["mse"])
        assert str(each["rate"]) in {str(float(rate)) for rate in each["rates"]}
        assert 1 <= each["after"][0] <= (each["width"] + 1) ** each["depth"]
    assert min(found.numbers["trained"][0]["mse"]) < np.var(found.numbers["sawtooth"]), "it has learned something"
    assert "have 32 linear pieces" in found.says[0]
    (legend,) = [axes.get_legend() for axes in found.figure.axes if "What training" in axes.get_title("left")]
    for each, text in zip(found.numbers["trained"], legend.get_texts()[1:], strict=True):
        shown = text.get_text().split("mse ")[1]
        assert shown in found.says[2], "the legend and the sentence have the same number"
        assert float(shown.split(" ± ")[0]) == pytest.approx(np.mean(each["mse"]), rel=0.05)
