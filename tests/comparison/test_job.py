"""Comparing: the same split for all, nothing lost by a failure or a kill, and the true family first."""

from __future__ import annotations

import html
import shutil
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import deepcanon as dc
from deepcanon.comparison.columns import NATS
from deepcanon.comparison.job import run_jobs
from deepcanon.comparison.record import Comparison
from deepcanon.comparison.tables import sections
from deepcanon.core import Batch, Blueprint, CheckpointError, DeepcanonError, Terms, UsageError
from deepcanon.core.files import seal, unseal
from deepcanon.core.toy import Toy
from deepcanon.data.tables.table import log_det_of_scaling
from deepcanon.runs.folder import RunFolder


class Shy(Toy):
    """A Gaussian that is interrupted, or fails, at a certain step of the first training that comes so far."""

    fault: BaseException | None = None
    pause = 0.0

    def loss(self, batch: Batch) -> Terms:
        time.sleep(self.pause)
        if self.training and Shy.fault is not None and self.progress > 0.5:
            fault, Shy.fault = Shy.fault, None
            raise fault
        return super().loss(batch)


@pytest.fixture(autouse=True)
def _calm() -> None:
    Shy.fault, Shy.pause = None, 0.0


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A CSV file with 60 rows drawn from a Gaussian: too few test rows to judge samples, so that tests are fast."""
    path = tmp_path_factory.mktemp("data") / "table.csv"
    rows = np.random.default_rng(0).normal(size=(60, 2)) @ np.array([[1.0, 0.8], [0.0, 0.4]])
    path.write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in rows))
    return str(path)


def candidates(*names: str) -> list[Blueprint]:
    own: dict[str, type[Any]] = {"Toy": Toy, "Shy": Shy}
    return [Blueprint(own.get(name) or dc.find(name), label=name) for name in names]


def written(folder: Path) -> dict[str, Any]:
    """The content of the comparison's file, which is sealed."""
    path = folder / "compare.json"
    return unseal(path.read_bytes(), path)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return RunFolder.open(folder).read_weights()


@pytest.mark.slow
def test_the_weights_of_diffusion_are_those_of_the_best_bound(table: str, tmp_path: Path) -> None:
    small = Blueprint(dc.find("ddpm"), {"hidden": (16,), "timesteps": 20}, label="ddpm")
    (entry,) = run_jobs([small], table, tmp_path / "out", budget=0.3)["runs"]
    assert entry["measured"] is not None
    epochs = [record for record in RunFolder.open(tmp_path / "out" / entry["run"]).log() if record["kind"] == "epoch"]
    best = min(epochs, key=lambda record: float(record["valid"]["nll"]))
    assert entry["measured"]["weights"] == f"best by validation nll, of step {best['step']}"


def test_runs_are_ordinary_runs_on_the_same_split_and_the_file_says_all(table: str, tmp_path: Path) -> None:
    heard: list[str] = []
    out = tmp_path / "out"
    found = run_jobs(candidates("Toy", "gaussian"), table, out, seeds=2, notify=heard.append)
    places = [entry["run"] for entry in found["runs"]]
    assert places == ["Toy-plain/seed-0", "Toy-plain/seed-1", "gaussian-plain/seed-0", "gaussian-plain/seed-1"]
    assert found == written(out)
    assert found["status"] == "finished"
    infos = [RunFolder.open(out / place).info for place in places]
    assert len({info["data"]["fingerprint"] for info in infos}) == 1
    assert [info["settings"]["seed"] for info in infos] == [0, 1, 0, 1]
    for entry, info in zip(found["runs"], infos, strict=True):
        assert entry["measured"] is not None
        assert entry["measured"]["test"] == info["results"]["test"]
        assert entry["measured"]["likelihood"] is not None
        assert entry["measured"]["likelihood"]["nats"] == pytest.approx(
            -info["results"]["test"]["nll"]
            + log_det_of_scaling(info["data"]["preprocessing"], torch.zeros(1, *info["data"]["shape"])).item()
        )
    assert [line.split()[0] for line in heard if line.startswith("[")] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]


def test_broken_off_it_goes_on_and_ends_as_if_it_had_not_been(table: str, tmp_path: Path) -> None:
    unbroken = run_jobs(candidates("Toy", "Shy"), table, tmp_path / "unbroken")
    Shy.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(candidates("Toy", "Shy"), table, tmp_path / "broken")
    half = written(tmp_path / "broken")
    assert (half["status"], len(half["runs"])) == ("running", 1)
    first = (tmp_path / "broken" / "Toy-plain" / "seed-0" / "model.safetensors").stat().st_mtime_ns
    heard: list[str] = []
    whole = run_jobs(candidates("Toy", "Shy"), table, tmp_path / "broken", notify=heard.append)
    assert next(line for line in heard if line.startswith("[")).endswith("seed 0: kept")
    assert (tmp_path / "broken" / "Toy-plain" / "seed-0" / "model.safetensors").stat().st_mtime_ns == first
    assert _scores(whole) == _scores(unbroken)
    for name, tensor in weights(tmp_path / "unbroken" / "Shy-plain" / "seed-0").items():
        assert torch.equal(weights(tmp_path / "broken" / "Shy-plain" / "seed-0")[name], tensor)


def test_broken_off_in_its_first_training_it_still_knows_what_was_measured_before(table: str, tmp_path: Path) -> None:
    before = run_jobs(candidates("Toy"), table, tmp_path / "out")
    Shy.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(candidates("Shy", "Toy"), table, tmp_path / "out")
    assert written(tmp_path / "out")["runs"] == before["runs"]


def test_a_run_killed_before_its_first_checkpoint_is_begun_anew(table: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    whole = run_jobs(candidates("Toy"), table, out)
    run = out / "Toy-plain" / "seed-0"
    for path in (run / "run.json", run / "model.safetensors"):
        path.unlink()
    (out / "compare.json").write_bytes(seal({**written(out), "runs": []}))
    assert _scores(run_jobs(candidates("Toy"), table, out)) == _scores(whole)


def test_a_flipped_digit_of_a_comparison_is_noticed(table: str, tmp_path: Path) -> None:
    found = run_jobs(candidates("Toy"), table, tmp_path / "out")
    measured = found["runs"][0]["measured"]
    assert measured is not None
    path, number = tmp_path / "out" / "compare.json", str(measured["test"]["nll"])
    whole = path.read_text()
    flipped = str(int(number[-1]) ^ 1)
    path.write_text(whole.replace(number, number[:-1] + flipped))
    with pytest.raises(CheckpointError, match=r"compare\.json is damaged: it does not match its own checksum"):
        run_jobs(candidates("Toy"), table, tmp_path / "out")
    path.write_bytes(b"\xff\xfe" + whole.encode())
    with pytest.raises(CheckpointError, match=r"compare\.json is damaged: it is not JSON"):
        run_jobs(candidates("Toy"), table, tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"request": {"data": 3}}, "request.models"),
        ({"data": {}}, "data.fingerprint"),
        ({"runs": {}}, "runs"),
        ({"format": "new"}, "format"),
        ({"format": 99}, "a newer version"),
    ],
)
def test_a_comparison_that_was_made_up_is_refused(
    table: str, tmp_path: Path, change: dict[str, Any], place: str
) -> None:
    run_jobs(candidates("Toy"), table, tmp_path)
    (tmp_path / "compare.json").write_bytes(seal({**written(tmp_path), **change}))
    with pytest.raises(DeepcanonError, match=rf"compare\.json .*{place}"):
        run_jobs(candidates("Toy"), table, tmp_path)


def test_what_was_measured_otherwise_is_measured_again(table: str, tmp_path: Path) -> None:
    whole = run_jobs(candidates("Toy"), table, tmp_path)
    entry: Any = whole["runs"][0]
    older = {**entry, "measured": {"test": {}}}
    (tmp_path / "compare.json").write_bytes(seal({**written(tmp_path), "runs": [older]}))
    assert _scores(run_jobs(candidates("Toy"), table, tmp_path)) == _scores(whole)


def test_nothing_is_written_through_a_link_in_its_folder(table: str, tmp_path: Path) -> None:
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    out.mkdir()
    (out / "Toy-plain").symlink_to(elsewhere)
    (out / "compare.json").symlink_to(elsewhere / "mine.json")
    with pytest.raises(UsageError, match="holds something else"):
        run_jobs(candidates("Toy"), table, out)
    (out / "compare.json").unlink()
    (out / "Toy-plain").unlink()
    run_jobs(candidates("Toy"), table, out)
    shutil.rmtree(out / "Toy-plain")
    (out / "Toy-plain").symlink_to(elsewhere)
    (entry,) = run_jobs(candidates("Toy"), table, out)["runs"]
    assert "Toy-plain is a symbolic link" in str(entry["error"])
    assert list(elsewhere.iterdir()) == []


def test_a_run_that_was_thrown_away_is_trained_again(table: str, tmp_path: Path) -> None:
    whole = run_jobs(candidates("Toy"), table, tmp_path / "out")
    shutil.rmtree(tmp_path / "out" / "Toy-plain")
    assert _scores(run_jobs(candidates("Toy"), table, tmp_path / "out")) == _scores(whole)
    assert (tmp_path / "out" / "Toy-plain" / "seed-0" / "model.safetensors").is_file()


def test_models_and_seeds_may_be_added(table: str, tmp_path: Path) -> None:
    run_jobs(candidates("Toy"), table, tmp_path / "out")
    heard: list[str] = []
    found = run_jobs(candidates("Toy", "gaussian"), table, tmp_path / "out", seeds=2, notify=heard.append)
    assert len(found["runs"]) == 4
    assert sum(line.endswith("kept") for line in heard) == 1


@pytest.mark.parametrize("fault", [UsageError("too shy"), RuntimeError("a bug\nwith more lines")])
def test_one_family_that_fails_does_not_lose_the_others(table: str, tmp_path: Path, fault: Exception) -> None:
    Shy.fault = fault
    found = run_jobs(candidates("Shy", "Toy", "mlp"), table, tmp_path / "out")
    shy, toy = found["runs"]
    assert shy["error"] == ("too shy" if isinstance(fault, UsageError) else "RuntimeError: a bug")
    assert shy["measured"] is None
    assert toy["measured"] is not None
    assert "mlp learns from labeled examples" in found["unsuitable"]["mlp"]
    again = run_jobs(candidates("Shy", "Toy"), table, tmp_path / "out")  # what failed is tried again
    assert again["runs"][0]["measured"] is not None


def test_epochs_that_are_asked_for_take_the_place_of_those_of_recipes(table: str, tmp_path: Path) -> None:
    found = dc.compare(["vae:hidden=4", "gaussian"], table, tmp_path / "out", epochs=2, baselines="none")
    for entry in found.content["runs"]:
        settings = RunFolder.open(tmp_path / "out" / entry["run"]).info["settings"]
        assert settings["epochs"] == 2
        assert entry["measured"] is not None
        assert entry["measured"]["steps"] == entry["measured"]["planned"] == 2
    commands = found.report.read_text("utf-8")
    assert "--seeds 1 --epochs 2" in commands
    assert "--epochs 2 --seed 0" in commands
    with pytest.raises(UsageError, match="with epochs 2, not 3"):
        dc.compare(["vae:hidden=4"], table, tmp_path / "out", epochs=3, baselines="none")
    with pytest.raises(UsageError, match="epochs must be a whole number of at least 1"):
        dc.compare(["vae:hidden=4"], table, tmp_path / "new", epochs=0, baselines="none")


def test_a_budget_ends_a_training_and_is_said(table: str, tmp_path: Path) -> None:
    Shy.pause = 0.05
    found = run_jobs(candidates("Shy"), table, tmp_path / "out", budget=0.1)
    measured = found["runs"][0]["measured"]
    assert measured is not None
    assert measured["steps"] < measured["planned"] == 5
    assert RunFolder.open(tmp_path / "out" / "Shy-plain" / "seed-0").info["status"] == "finished"


def test_what_cannot_be_right_is_refused(table: str, tmp_path: Path) -> None:
    toy = candidates("Toy")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "compare.json").write_text("{}")
    (tmp_path / "file").touch()
    run_jobs(toy, table, tmp_path / "there")
    other = tmp_path / "other.csv"
    other.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(60)))
    refused: dict[str, Callable[[], object]] = {
        "holds something else": lambda: run_jobs(toy, table, tmp_path / "full"),
        "is not sealed JSON": lambda: run_jobs(toy, table, tmp_path / "broken"),
        "is a file": lambda: run_jobs(toy, table, tmp_path / "file"),
        "with budget None, not 3": lambda: run_jobs(toy, table, tmp_path / "there", budget=3),
        "with data": lambda: run_jobs(toy, str(other), tmp_path / "there"),
        "given twice": lambda: run_jobs([*toy, *toy], table, tmp_path / "new"),
        "seeds must be": lambda: run_jobs(toy, table, tmp_path / "new", seeds=0),
        "must be positive": lambda: run_jobs(toy, table, tmp_path / "new", budget=0),
        "name the models": lambda: run_jobs([], table, tmp_path / "new"),
        "mlp learns from": lambda: run_jobs(candidates("mlp"), table, tmp_path / "new"),
    }
    for words, call in refused.items():
        with pytest.raises(DeepcanonError, match=words):
            call()
    assert not (tmp_path / "new").exists()


def test_data_that_have_changed_are_noticed(table: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_text(Path(table).read_text())
    run_jobs(candidates("Toy"), str(copy), tmp_path / "out")
    copy.write_text(copy.read_text() + "9,9\n")
    with pytest.raises(UsageError, match="have changed"):
        run_jobs(candidates("Toy"), str(copy), tmp_path / "out")


@pytest.mark.slow
def test_the_family_that_the_data_come_from_comes_first(tmp_path: Path) -> None:
    """A Gaussian with full covariance against one without, a subspace, and networks of many more parameters."""
    path = tmp_path / "normal.csv"
    mix = np.array([[1.0, 0.8, 0.1], [0.0, 0.6, -0.5], [0.0, 0.0, 0.7]])
    rows = np.random.default_rng(1).normal(size=(800, 3)) @ mix
    path.write_text("a,b,c\n" + "".join(",".join(f"{value:.5f}" for value in row) + "\n" for row in rows))
    names = candidates("realnvp", "ddpm", "Toy", "gaussian")
    ppca = Blueprint(dc.find("ppca"), {"latent": 1}, label="ppca:latent=1")
    found = run_jobs([*names, ppca], str(path), tmp_path / "out", budget=1)
    (section,) = sections(found)
    assert section.rows[0].label == "gaussian"
    entropy = 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * np.cov(rows.T)))  # in the units of the file
    assert section.rows[0].mean(NATS) == pytest.approx(-entropy, abs=0.15)


@pytest.mark.slow
def test_a_planted_subspace_comes_first_whatever_the_scales_of_its_columns(tmp_path: Path) -> None:
    """Isotropic noise is isotropic in the units of the file, not in those of standardized columns."""
    path = tmp_path / "planted.csv"
    random = np.random.default_rng(0)
    weight = np.array([[8.0, 3.0, -2.0, 0.5, 1.0, 0.1], [0.0, 1.0, 4.0, 0.2, -6.0, 0.3]])
    rows = random.normal(size=(300, 2)) @ weight + 0.5 * random.normal(size=(300, 6)) + [10, -5, 0, 3, 1, 100]
    np.savetxt(path, rows, delimiter=",", header="a,b,c,d,e,f", comments="")
    ppca = Blueprint(dc.find("ppca"), {"latent": 2}, label="ppca:latent=2")
    found = run_jobs([*candidates("gaussian", "gaussian_mixture", "vae"), ppca], str(path), tmp_path / "out", budget=1)
    (section,) = sections(found)
    assert section.rows[0].label == "ppca:latent=2"
    covariance = weight.T @ weight + 0.25 * np.eye(6)
    entropy = 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * covariance))  # in the units of the file
    assert section.rows[0].mean(NATS) == pytest.approx(-entropy, abs=0.6)


def _scores(found: Comparison) -> list[dict[str, Any]]:
    measured = [entry["measured"] for entry in found["runs"]]
    return [{"test": each["test"], "likelihood": each["likelihood"]} for each in measured if each is not None]


def test_a_folder_keeps_no_run_of_other_arguments(table: str, tmp_path: Path) -> None:
    one, other = (dc.blueprint("gaussian_mixture", {"components": count}) for count in (1, 2))
    assert (one.label, other.label) == ("gaussian_mixture:components=1", "gaussian_mixture:components=2")
    first = run_jobs([one], table, tmp_path)
    again = run_jobs([one, other], table, tmp_path)
    assert again["runs"][0] == first["runs"][0]
    assert [entry["label"] for entry in again["runs"]] == [one.label, other.label]
    disguised = Blueprint(dc.find("gaussian_mixture"), {"components": 2}, label=one.label)
    with pytest.raises(UsageError, match="holds a gaussian_mixture:components=1 with other arguments"):
        run_jobs([disguised], table, tmp_path)


def frames() -> dict[str, tuple[Any, dict[str, Any]]]:
    """The same rows as a data frame of pandas and of polars, as arrays, and as a torch data set."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 2)).round(3)
    y = (x[:, 0] + 0.5 * generator.normal(size=60) > 0).astype(np.int64)
    names = np.array(["no", "yes"])[y]
    of_torch = torch.utils.data.TensorDataset(torch.from_numpy(x).float(), torch.from_numpy(y))
    given: dict[str, tuple[Any, dict[str, Any]]] = {"arrays": ((x, y), {}), "torch": (of_torch, {})}
    for library in ("pandas", "polars"):
        if find_spec(library) is not None:
            frame = import_module(library).DataFrame({"a": x[:, 0], "b": x[:, 1], "y": names})
            given[library] = (frame, {"target": "y"})
    return given


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pandas", "polars", "arrays", "torch"])
def test_data_in_memory_are_compared_on_in_one_line_and_gone_on_with(kind: str, tmp_path: Path) -> None:
    if kind not in frames():
        pytest.skip(f"needs {kind}")
    data, reading = frames()[kind]
    heard: list[str] = []
    first = dc.compare(["softmax_regression"], data, tmp_path / "out", baselines="logistic", **reading)
    counts = [first.content["data"][part] for part in ("train", "valid", "test")]
    assert counts == [42, 6, 12]
    (section,) = first.sections
    assert {row.label for row in section.rows} == {"softmax_regression", "LogisticRegression (scikit-learn)"}
    words = ", target='y'" if reading else ""
    call = (
        f"dc.compare(['softmax_regression'], data, {str(tmp_path / 'out')!r}{words}, seeds=1, baselines=['logistic'])"
    )
    assert call in html.unescape(first.report.read_text())
    again = dc.compare(
        ["softmax_regression"], data, tmp_path / "out", baselines="logistic", notify=heard.append, **reading
    )
    assert [line.endswith("kept") for line in heard if line.startswith("[")] == [True, True]
    assert again.content["runs"] == first.content["runs"]
    if kind == "arrays":
        with pytest.raises(UsageError, match="have changed since"):
            dc.compare(["softmax_regression"], (data[0][::-1], data[1]), tmp_path / "out")


def test_the_budget_ends_baselines_too_and_it_is_said(table: str, tmp_path: Path) -> None:
    found = dc.compare(
        ["linear_regression"], table, tmp_path / "out", target="b", budget=1e-6, baselines="random_forest"
    )
    (entry,) = (run for run in found.content["runs"] if run["baseline"])
    assert entry["measured"] is not None
    assert (entry["measured"]["steps"], entry["measured"]["planned"]) == (25, 300)
    assert (
        "RandomForest (scikit-learn) was stopped by the budget: seed 0 at step 25 of 300." in found.report.read_text()
    )
