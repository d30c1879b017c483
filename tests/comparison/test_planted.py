"""Planted data: the family that a file was drawn from comes first, through the whole way from the file on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepcanon as dc
from deepcanon.comparison.baselines import scikit_learn
from deepcanon.comparison.columns import RMSE, SHARPEST
from deepcanon.comparison.compare import Compared

SCALES = np.array([1000.0, 0.01, 1.0, 30.0])


def written(path: Path, rows: Any) -> Path:
    names = ",".join("abcdefgh"[: rows.shape[1] - 1]) + ",y"
    np.savetxt(path, rows, delimiter=",", header=names, comments="")
    return path


def drawn(family: str, random: np.random.Generator) -> Any:
    """Rows of a family in very different units; of PPCA the noise is as large in every column, so these are its own."""
    if family == "gaussian":
        return random.normal(size=(400, 4)) @ random.normal(size=(4, 4)) * SCALES
    if family == "ppca:latent=1":
        return random.normal(size=(400, 1)) @ np.array([[900.0, 3.0, -200.0, 40.0]]) + 5 * random.normal(size=(400, 4))
    centers = random.normal(size=(3, 4)) * 6
    return (centers[random.integers(0, 3, size=400)] + random.normal(size=(400, 4))) * SCALES


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "ppca:latent=1", "gaussian_mixture:components=3"])
def test_a_planted_density_comes_first(family: str, tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", drawn(family, np.random.default_rng(5)))
    names = ["vae:hidden=16", "gaussian", "ppca:latent=1", "gaussian_mixture:components=3"]
    found = dc.compare(names, path, tmp_path / "out", budget=0.5, baselines="none")
    (section,) = found.sections
    assert section.rows[0].label == family
    assert section.rows[0].mean(SHARPEST) is not None
    (first,) = [each for each in found.says if "log-likelihood" in each][:1]
    assert first.startswith(family)


def compared(path: Path, names: list[str], out: Path, monkeypatch: pytest.MonkeyPatch) -> Compared:
    monkeypatch.setattr(scikit_learn, "TREES", 40)
    return dc.compare(names, path, out, target="y", budget=1)


@pytest.mark.slow
def test_a_planted_line_is_found_by_the_linear_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(300, 4)) * SCALES
    y = (x / SCALES) @ [3.0, -2.0, 1.0, 4.0] * 50 + 20 * random.normal(size=300)
    path = written(tmp_path / "line.csv", np.column_stack([x, y]))
    found = compared(path, ["linear_regression", "mlp"], tmp_path / "out", monkeypatch)
    (section,) = found.sections
    assert {row.label for row in section.rows[:2]} == {"linear_regression", "Ridge (scikit-learn)"}
    assert section.rows[0].mean(RMSE) == pytest.approx(20, rel=0.2)  # in the units of the file
    assert "cannot be told apart" in found.says[0]


@pytest.mark.slow
def test_planted_steps_are_found_by_boosting_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Axis-aligned steps in two of four columns: trees find them, lines do not."""
    random = np.random.default_rng(0)
    x = random.normal(size=(600, 4))
    y = 5.0 * (x[:, 0] > 0.5) - 7.0 * ((x[:, 1] > -0.3) & (x[:, 0] < 0)) + 0.3 * random.normal(size=600)
    path = written(tmp_path / "steps.csv", np.column_stack([x, y]))
    found = compared(path, ["linear_regression"], tmp_path / "out", monkeypatch)
    assert not found.sections[0].rows[-1].is_baseline or found.sections[0].rows[-1].label == "Ridge (scikit-learn)"
    winners = ("HistGradientBoosting (scikit-learn)", "RandomForest (scikit-learn)")
    sentence = next(each for each in found.says if "is better than the model linear_regression" in each)
    assert sentence.startswith(winners)
    assert sentence in found.report.read_text()


@pytest.mark.slow
def test_a_planted_markov_source_is_found_by_the_chain(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    text = "ab"
    while len(text) < 6000:
        text += text[-2] if random.uniform() < 0.85 else random.choice(list("abc"))
    path = tmp_path / "source.txt"
    path.write_text(text)
    found = dc.compare(["lstm:units=16,embedding=8"], path, tmp_path / "out", budget=1)
    (section,) = found.sections
    assert [row.label for row in section.rows] == ["Markov chain", "lstm:units=16,embedding=8"]
    assert any(each.startswith("Markov chain is better than the model lstm") for each in found.says)
    assert "Markov chain has order 2, chosen on validation data." in found.report.read_text()
    likely = 0.85 + 0.05
    entropy = -likely * np.log(likely) - 2 * 0.05 * np.log(0.05)
    assert section.rows[0].mean(SHARPEST) == pytest.approx(-entropy, abs=0.08)


@pytest.mark.slow
def test_a_planted_chain_is_found_by_the_sparse_precision(tmp_path: Path) -> None:
    """Few rows of a chain, in which each column depends on its two neighbors only: the full covariance overfits."""
    random = np.random.default_rng(0)
    columns = [random.normal(size=120)]
    for _ in range(11):
        columns.append(0.6 * columns[-1] + 0.8 * random.normal(size=120))
    path = tmp_path / "chain.csv"
    names = ",".join(f"c{i}" for i in range(12))
    np.savetxt(path, np.stack(columns, 1) * np.logspace(-2, 2, 12), delimiter=",", header=names, comments="")
    family = "gaussian_mrf:penalty=0.1"
    found = dc.compare(["gaussian", family, "ppca:latent=2"], path, tmp_path / "out", baselines="none")
    (section,) = found.sections
    assert section.rows[0].label == family
