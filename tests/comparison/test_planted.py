"""Planted data: the family that a file was drawn from comes first, through the whole way from the file on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.blueprints import blueprint
from deepcanon.comparison.baselines import scikit_learn
from deepcanon.comparison.columns import RMSE, SHARPEST
from deepcanon.comparison.compare import Compared

SCALES = np.array([1000.0, 0.01, 1.0, 30.0])


def written(path: Path, rows: Any) -> Path:
    names = ",".join(f"c{place}" for place in range(rows.shape[1] - 1)) + ",y"
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


def all_states(units: int) -> Any:
    return ((np.arange(2**units)[:, None] >> np.arange(units)) & 1).astype(float)


def chosen(states: Any, log_weights: Any, count: int, random: np.random.Generator) -> Any:
    """So many of the states, drawn in proportion to the exponentials of these logarithms."""
    share = np.exp(log_weights - log_weights.max())
    return states[random.choice(len(share), size=count, p=share / share.sum())]


def from_rbm(random: np.random.Generator, count: int = 1500, features: int = 10, units: int = 2) -> Any:
    weight, v = 3 * random.normal(size=(features, units)), all_states(features)
    free = -v @ weight.sum(1) / 2 + np.logaddexp(0, v @ weight - weight.sum(0) / 2).sum(1)
    return chosen(v, free, count, random)


def from_boltzmann_machine(random: np.random.Generator) -> Any:
    couplings, v = np.triu(1.5 * random.normal(size=(8, 8)), 1), all_states(8)
    return chosen(v, (v @ couplings * v).sum(1) - v @ (couplings + couplings.T).sum(1) / 2, 1500, random)


def from_bayesian_network(random: np.random.Generator) -> Any:
    """A value is likely 1 where the two before it differ."""
    x = np.zeros((600, 12))
    for place in range(12):
        likely = np.where(x[:, place - 1] != x[:, place - 2], 0.92, 0.08) if place > 1 else 0.5
        x[:, place] = random.uniform(size=600) < likely
    return x


def from_gaussian_rbm(random: np.random.Generator) -> Any:
    """Eight Gaussians at the corners of a box: with orthogonal columns of W all hidden states are equally likely."""
    corners = 5 * np.linalg.qr(random.normal(size=(4, 3)))[0]
    return (all_states(3)[random.integers(0, 8, 600)] @ corners.T + random.normal(size=(600, 4))) * SCALES


def from_dbn(random: np.random.Generator) -> Any:
    """Four hidden units, an even number of which is on in 39 of 40 cases, with six noisy copies of each."""
    h = random.integers(0, 2, size=(1500, 4)).astype(bool)
    h[(h.sum(1) % 2 == 1) & (random.uniform(size=1500) < 0.95), 0] ^= True
    return (np.repeat(h, 6, axis=1) ^ (random.uniform(size=(1500, 24)) < 0.15)).astype(float)


def from_ebm(random: np.random.Generator) -> Any:
    """A ring, in very different units."""
    angle, radius = random.uniform(0, 2 * np.pi, 1000), 2 + 0.2 * random.normal(size=1000)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1) * [100.0, 0.01]


VAE = "vae:likelihood=bernoulli,hidden=32,latent=3"
PLANTED: dict[str, tuple[Any, list[str]]] = {
    "rbm:units=2": (from_rbm, ["boltzmann_machine:units=2", "bayesian_network:edges=1", VAE]),
    "boltzmann_machine:units=1": (from_boltzmann_machine, ["rbm:units=2", "bayesian_network:edges=1", VAE]),
    "bayesian_network:edges=2": (from_bayesian_network, ["nade", "rbm:units=4", VAE]),
    "dbn:hidden=6/24": (from_dbn, ["rbm:units=6", "bayesian_network:edges=1", VAE]),
    "gaussian_rbm:units=3": (
        from_gaussian_rbm,
        ["gaussian", "gaussian_mixture:components=3", "gaussian_mixture:components=8", "ppca:latent=2"],
    ),
    "ebm:hidden=32/32,langevin_steps=20": (
        from_ebm,
        ["gaussian", "gaussian_mixture:components=3", "vae:hidden=32,latent=2"],
    ),
}
"""Data drawn from a family, and others that are held to it."""
AS_GOOD = {"rbm:units=2": {"boltzmann_machine:units=2", VAE}, "boltzmann_machine:units=1": {VAE}}
"""Which may come level: a Boltzmann machine contains the RBM, and a VAE comes near any table of so few bits."""


@pytest.mark.slow
@pytest.mark.parametrize("family", PLANTED)
def test_a_planted_family_comes_first_or_cannot_be_told_from_the_first(family: str, tmp_path: Path) -> None:
    draw, others = PLANTED[family]
    path = written(tmp_path / "rows.csv", draw(np.random.default_rng(0)))
    found = dc.compare([family, *others], path, tmp_path / "out", baselines="none")
    assert not found.failures
    (section,) = found.sections
    first, *_ = section.rows
    (own,) = [row for row in section.rows if row.label == family]
    assert own is first or own in section.tied(first, SHARPEST)
    assert any(family in each and ("highest" in each or "cannot be told apart" in each) for each in found.says)
    for row in section.rows:
        if row is not own and row.label not in AS_GOOD.get(family, ()):
            gain = section.difference(own, row, SHARPEST)
            assert gain is not None
            assert gain["low"] > 0, row.label


VARIATIONAL = [
    "vae:latent=2,hidden=32",
    "full_covariance_vae:latent=2,hidden=32",
    "flow_vae:latent=2,hidden=32,transforms=2,summary=8",
    "iwae:latent=2,hidden=32",
    "hierarchical_vae:latents=2/2,hidden=32",
    "markov_hierarchical_vae:latents=2/2,hidden=32",
]


@pytest.mark.slow
def test_linear_latents_leave_nothing_to_gain_over_probabilistic_pca(tmp_path: Path) -> None:
    """Data of PPCA, whose likelihood is the exact maximum: the bounds of all others come near it from below."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(800, 2)) @ random.normal(size=(2, 5)) * 2 + random.normal(size=(800, 5))
    path = written(tmp_path / "rows.csv", rows)
    found = dc.compare([*VARIATIONAL, "ppca:latent=2", "gaussian"], path, tmp_path / "out", baselines="none")
    (section,) = found.sections
    exact = next(row for row in section.rows if row.label == "ppca:latent=2").mean(SHARPEST)
    assert exact is not None
    for row in section.rows:
        value = row.mean(SHARPEST)
        assert value is not None
        assert exact - 0.3 < value < exact + 0.05, row.label


LATENT = {
    "vae:latent=1": "flow_vae:latent=1,transforms=4,summary=8",
    "full_covariance_vae:latent=4": "vae:latent=4",
    "flow_vae:latent=4,transforms=4,summary=8": "vae:latent=4",
    "iwae:latent=4": "vae:latent=4",
    "hierarchical_vae:latents=4/2": "vae:latent=4",
    "markov_hierarchical_vae:latents=4/2": "vae:latent=4",
}
"""Each kind of variational autoencoder, and a sibling."""
OUTSIDERS = ["gaussian", "gaussian_mixture:components=3", "realnvp:couplings=4,hidden=32"]


def from_latents(name: str, features: int = 20, gain: float = 1.7) -> Any:
    """Rows of a model whose random weights are larger than at the start of a training, in wild units far from 0.

    What the decoder gives is as large in every column, and so is the noise, as the model has it after standardizing.
    """
    torch.manual_seed(0)
    model: Any = blueprint(name).build({"features": features})
    with torch.no_grad():
        for part in (model.decoder, getattr(model, "down", torch.nn.Identity())):
            for parameter in part.parameters():
                parameter *= gain if parameter.ndim > 1 else 1
        mean = model.decode(model.prior().sample((1000,))).mean
        rows = (mean - mean.mean(0)) / mean.std(0) + 0.5 * torch.randn_like(mean)
    return (rows.double().numpy() + 10 * np.random.default_rng(0).normal(size=features)) * np.logspace(-2, 3, features)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LATENT)
def test_planted_latents_are_found_by_their_kind_of_variational_autoencoder(kind: str, tmp_path: Path) -> None:
    """No sibling is ahead of it, and all that have no latents are behind, for the same test examples.

    Siblings that differ in the posterior alone share p(x), and what separates them is how well it was learned: to be
    first or not to be told from the first is all that can be asked. On these data hierarchies and the IWAE are ahead,
    and so the IWAE, which would be ahead of other posteriors too, is not compared with those.
    """
    planted, sibling = f"{kind},hidden=32", f"{LATENT[kind]},hidden=32"
    path = written(tmp_path / "rows.csv", from_latents(planted))
    found = dc.compare([planted, sibling, *OUTSIDERS], path, tmp_path / "out", baselines="none")
    assert not found.failures
    (section,) = found.sections
    gains = {each["second"]: (each["low"], each["high"]) for each in section.differences if each["first"] == planted}
    assert set(gains) == {sibling, *OUTSIDERS}
    for other in OUTSIDERS:
        assert gains[other][0] > 0, other
    assert gains[sibling][1] >= 0
    if kind.startswith(("iwae", "hierarchical", "markov")):
        assert gains[sibling][0] > 0


@pytest.mark.slow
def test_planted_latents_of_classes_are_found_by_the_conditional_autoencoder_before_those_that_do_not_know_the_class(
    tmp_path: Path,
) -> None:
    """Twelve columns that are quadratic functions of two latents, other functions for each of three classes."""
    random = np.random.default_rng(0)
    kinds, z = random.integers(3, size=1500), random.normal(size=(1500, 2))
    lines, bends = random.normal(size=(2, 3, 2, 12))
    x = np.einsum("nk,nkd->nd", z, lines[kinds]) + 0.7 * np.einsum("nk,nkd->nd", z**2, bends[kinds])
    rows = (x / x.std(0) + 0.5 * random.normal(size=x.shape)) * np.logspace(-2, 2, 12)
    path = written(tmp_path / "rows.csv", np.column_stack([rows, kinds]))  # whole numbers in the column "y"
    planted, others = "conditional_vae:latent=4,hidden=64", [
        "vae:latent=4,hidden=64", "gaussian_mixture:components=8", "gaussian", "realnvp:couplings=4,hidden=32",
    ]  # fmt: skip
    found = dc.compare([planted, *others], path, tmp_path / "out", baselines="none", target="y")
    assert not found.failures
    (section,) = found.sections
    ahead = {each["second"]: each["low"] for each in section.differences if each["first"] == planted}
    assert set(ahead) == set(others)
    assert min(ahead.values()) > 0  # the 95 % interval of the gain for the same test examples


@pytest.mark.slow
def test_a_planted_lattice_is_found_by_the_ising_model_among_models_of_zeros_and_ones(tmp_path: Path) -> None:
    """Spins and zeros and ones stand in one table, since their probabilities are of the same patterns."""
    found = dc.compare(["ising", "bayesian_network:edges=9,units=4"], "ising", tmp_path / "out", baselines="none")
    (section,) = found.sections
    assert [row.label for row in section.rows] == ["ising", "bayesian_network:edges=9,units=4"]
    assert section.marked(section.rows[0], SHARPEST)
    assert "Models of binary data" in found.report.read_text()


@pytest.mark.slow
def test_planted_tastes_are_found_by_the_machine_of_ratings_beyond_biases(tmp_path: Path) -> None:
    found = dc.compare(["ratings_rbm:units=20"], "ratings", tmp_path / "out")
    (section,) = found.sections
    assert [row.label for row in section.rows] == ["ratings_rbm:units=20", "biases of users and items"]
    assert section.rows[1].mean(RMSE) == pytest.approx(1.03, abs=0.03)
    assert section.marked(section.rows[0], RMSE)
    assert any("is better than the baseline biases of users and items" in each for each in found.says)
