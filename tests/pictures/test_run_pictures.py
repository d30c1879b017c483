"""Which pictures a run gets: the methods of the model and the kind of the data decide."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from torch import Generator, Tensor, nn

from deepcanon.core import Absorb, Batch, How, Labeled, Model, Terms, Turn
from deepcanon.core.toy import Toy
from deepcanon.data import from_tensors, load_data
from deepcanon.data.dataset import Dataset, Kind
from deepcanon.models.adversarial.cyclegan import CycleGAN
from deepcanon.models.adversarial.gan import GAN
from deepcanon.models.autoencoders.autoencoder import Autoencoder
from deepcanon.models.convolutional.cnn import CNN
from deepcanon.models.feedforward.mlp import MLP
from deepcanon.models.flows.video_flow import VideoFlow
from deepcanon.models.graphs.gcn import GCN
from deepcanon.models.linear.svm import SVM
from deepcanon.models.variational.vae import VAE
from deepcanon.pictures import draw_run, style
from deepcanon.pictures import run_pictures as run_module
from deepcanon.pictures.legibility import faults
from deepcanon.pictures.scene import Scene

HISTORY = [
    {"kind": "step", "step": i, "epoch": 1, "terms": {"nll": 1.0 / i}, "loss": 1.0 / i, "lr": 0.1, "grad_norm": 1.0}
    for i in range(1, 4)
]


@pytest.fixture(autouse=True)
def _legible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every picture that a test of this file draws can be read."""

    def save(figure: Figure, path: Path) -> Path:
        assert faults(figure) == [], path.name
        return style.save(figure, path)

    monkeypatch.setattr(run_module, "save", save)


def dataset(kind: Kind, shape: tuple[int, ...], labels: str = "", rows: int = 24) -> Dataset[Any]:
    random = Generator().manual_seed(0)
    x = torch.rand(rows, *shape, generator=random)
    if labels == "classes":
        batch: Batch = Labeled(x, torch.arange(rows) % 3)
    elif labels == "real":
        batch = Labeled(x, x.flatten(1)[:, :1])
    else:
        batch = Batch(x)
    return Dataset(name="made", kind=kind, train=batch, test=batch, shape=shape)


class Remembers(Model[Batch]):
    """A model with a gallery and nothing else."""

    def loss(self, batch: Batch) -> Terms:
        return {"energy": batch.x.mean()}

    def turns(self) -> Sequence[Turn[Batch]]:
        return [Absorb(lambda batch: None)]

    @classmethod
    def example(cls) -> Any:
        return cls(), Batch(torch.zeros(1, 4))

    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        return {"stored": x, "retrieved": x}


CASES = [
    (lambda: MLP(4, classes=3), dataset("images", (1, 2, 2), "classes"), {"curves", "confusion", "mistakes"}),
    (lambda: MLP(2, classes=3), dataset("points", (2,), "classes"), {"curves", "confusion", "decision_map"}),
    (lambda: MLP(3, targets=1), dataset("table", (3,), "real"), {"curves", "predictions"}),
    (lambda: MLP(3, classes=3), dataset("table", (3,), "classes"), {"curves", "confusion"}),
    (
        lambda: VAE(4, latent=3, hidden=(8,)),
        dataset("images", (1, 2, 2), "classes"),
        {"curves", "samples", "reconstructions", "latent_map"},
    ),
    (lambda: VAE(4, latent=1, hidden=(8,)), dataset("images", (2, 2)), {"curves", "samples", "reconstructions"}),
    (lambda: VAE(2, latent=2, hidden=(8,)), dataset("points", (2,)), {"curves", "samples", "reconstructions"}),
    (lambda: GAN(4, latent=2, hidden=(8,)), dataset("images", (1, 2, 2)), {"curves", "samples"}),
    (lambda: GAN(2, latent=2, hidden=(8,)), dataset("points", (2,)), {"curves", "samples"}),
    (lambda: Toy(3), dataset("table", (3,)), {"curves"}),
    (Remembers, dataset("images", (1, 2, 2)), {"curves", "gallery"}),
    (
        lambda: CNN(3, 4, 4, 3),
        dataset("images", (3, 4, 4), "classes"),
        {"curves", "confusion", "mistakes", "filters", "responses"},
    ),
    (Remembers, dataset("points", (2,)), {"curves", "gallery"}),
    (lambda: CycleGAN(2, hidden=(8,)), load_data("two-domains"), {"curves", "mapping"}),
    (lambda: CycleGAN(64, hidden=(8,)), load_data("digits:domains=3/8"), {"curves", "mapping"}),
    (lambda: CycleGAN(3, hidden=(8,)), from_tensors(torch.rand(9, 3), unpaired=torch.rand(7, 3)), {"curves"}),
    (Remembers, dataset("table", (3,)), {"curves"}),
    (
        lambda: VideoFlow(1, 12, 12, length=8, depth=1, hidden=4),
        load_data("moving-digits:dequantized"),
        {"curves", "samples", "forecasts"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "data", "names"), CASES)
def test_the_methods_decide_which_pictures_there_are(
    make: Any, data: Any, names: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(run_module, "save", lambda figure, path: path)  # rendering is what takes time
    drawn = draw_run(make(), data, HISTORY, Path("folder"), seed=0)
    assert {path.as_posix() for path in drawn} == {f"folder/{name}.png" for name in names}


def test_of_a_head_without_a_mean_the_mode_is_drawn() -> None:
    model = MLP(4, targets=1, head="cauchy")
    scene = Scene.of(model, dataset("table", (4,), "real"), 0)
    (figure,) = run_module._regressed(scene).values()
    (points,) = figure.axes[0].collections
    said = model.predict(scene.batch.x, how="mode")
    assert torch.equal(torch.tensor(points.get_offsets())[:, 1], said[:, 0].double())
    assert not model.predict(scene.batch.x, how="mean").isfinite().any()


@pytest.mark.parametrize(
    ("model", "labels", "unit"),
    [
        (MLP(4, classes=3), "classes", "nats per example"),
        (MLP(4, targets=1), "real", "loss per example"),
        (SVM(4, classes=3), "classes", "loss per example"),
        (VAE(4), "real", "nats per example"),
        (Autoencoder(4), "classes", "loss per example"),
    ],
)
def test_only_what_is_a_log_probability_is_in_nats(model: Model[Any], labels: str, unit: str) -> None:
    assert run_module._unit(Scene.of(model, dataset("table", (4,), labels), 0)) == unit


@pytest.mark.slow
def test_pictures_are_files(tmp_path: Path) -> None:
    (path,) = draw_run(Toy(3), dataset("table", (3,)), HISTORY, tmp_path / "pictures", seed=0)
    assert path == tmp_path / "pictures" / "curves.png"
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_graph_is_drawn_by_class_whether_its_features_are_sparse_or_not(tmp_path: Path) -> None:
    model, batch = GCN.example()
    for x in (batch.x, batch.x.to_sparse_coo()):
        whole = replace(batch, x=x)
        data: Dataset[Any] = Dataset(name="ring", kind="graph", train=whole, test=whole, shape=(3,), labels=("a", "b"))
        drawn = draw_run(model, data, [], tmp_path, seed=0)
        assert [path.name for path in drawn] == ["graph.png", "confusion.png"]


def test_without_history_there_are_no_curves(tmp_path: Path) -> None:
    assert draw_run(Toy(3), dataset("table", (3,)), [], tmp_path, seed=0) == []


class Empty(Remembers):
    def gallery(self, x: Tensor, *, generator: Generator | None = None) -> dict[str, Tensor]:
        return {"stored": x[:0], "retrieved": x[:0]}


def test_an_empty_memory_has_no_gallery(tmp_path: Path) -> None:
    assert draw_run(Empty(), dataset("images", (1, 2, 2)), [], tmp_path, seed=0) == []


def test_a_few_extreme_values_leave_the_others_in_black_and_white() -> None:
    values = torch.cat([torch.linspace(0, 1, 998), torch.tensor([-50.0, 70.0])])
    low, high = run_module._most(values[torch.randperm(1000, generator=Generator().manual_seed(0))])
    assert 0 <= low < 0.02
    assert 0.98 < high <= 1
    assert run_module._most(torch.tensor([1.0, -1.0])) == (-1.0, 1.0)


class Restless(VAE):
    """It draws from the global generator where it has no other."""

    def reconstruct(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x).sample()).mean.reshape(x.shape)


@pytest.mark.slow
def test_drawing_repeats_by_seed_and_leaves_no_trace(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Restless(4, latent=2, hidden=(8,))
    model.encoder.eval()
    model.decoder.train()
    data = dataset("images", (1, 2, 2), "classes")
    before = torch.get_rng_state()
    first = {path.name: path.read_bytes() for path in draw_run(model, data, [], tmp_path, seed=3)}
    assert torch.equal(torch.get_rng_state(), before)
    assert (model.training, model.encoder.training, model.decoder.training) == (True, False, True)
    torch.rand(1)
    again = {path.name: path.read_bytes() for path in draw_run(model, data, [], tmp_path, seed=3)}
    assert again == first
    other = {path.name: path.read_bytes() for path in draw_run(model, data, [], tmp_path, seed=4)}
    assert other["samples.png"] != first["samples.png"]
    assert other["latent_map.png"] == first["latent_map.png"]


class Table(Model[Labeled]):
    """Says to each example the class that stands in its first value, and how sure it is in its second."""

    def __init__(self) -> None:
        super().__init__()
        self.none = nn.Parameter(torch.zeros(1))

    def loss(self, batch: Labeled) -> Terms:
        return {"nll": self.none.sum()}

    @classmethod
    def example(cls) -> Any:
        return cls(), Labeled(torch.zeros(1, 2), torch.zeros(1))

    def predict(self, *inputs: Tensor, how: How = "mode", generator: Generator | None = None) -> Tensor:
        flat = inputs[0].flatten(1)
        said, sure = flat[:, 0].long(), flat[:, 1:2]
        shares = (1 - sure) / 2 * torch.ones(len(flat), 3)
        shares[torch.arange(len(flat)), said] = sure.squeeze(1)
        return shares if how == "mean" else said


def test_the_confusion_counts_and_the_worst_mistake_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    said = torch.tensor([0.0, 1.0, 2.0, 2.0, 1.0])
    sure = torch.tensor([0.9, 0.6, 0.8, 0.95, 0.7])
    x = torch.stack([said, sure, said, sure], 1).reshape(5, 1, 2, 2)
    batch = Labeled(x, torch.tensor([0, 0, 2, 1, 1]))
    data = Dataset(name="made", kind="images", train=batch, test=batch, shape=(1, 2, 2), labels=("a", "b", "c"))
    seen: dict[str, Any] = {}

    def spy(name: str) -> Any:
        original = getattr(run_module, name)

        def drawing(*args: Any, **options: Any) -> Any:
            seen[name] = (args, options)
            return original(*args, **options)

        return drawing

    for name in ("confusion", "rows"):
        monkeypatch.setattr(run_module, name, spy(name))
    monkeypatch.setattr(run_module, "save", lambda figure, path: path)
    draw_run(Table(), data, [], Path("folder"), seed=0)
    matrix, _, title = seen["confusion"][0]
    assert matrix.tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]  # rows are the truth
    assert title == "Confusion on test: accuracy 60.00% of 5 examples"
    assert seen["rows"][1]["captions"] == ["b, predicted\nc (95%)", "a, predicted\nb (60%)"]


def test_the_part_that_is_held_out_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    full = dataset("points", (2,)).train
    drawn: list[str] = []

    def note(points: dict[str, Tensor], title: str, names: tuple[str, str]) -> Figure:
        drawn.append(next(iter(points)))
        return Figure()

    monkeypatch.setattr(run_module, "scatter", note)
    monkeypatch.setattr(run_module, "save", lambda figure, path: path)
    for data in (
        Dataset(name="made", kind="points", train=full, valid=full, test=full, shape=(2,)),
        Dataset(name="made", kind="points", train=full, valid=full, shape=(2,)),
        Dataset(name="made", kind="points", train=full, shape=(2,)),
    ):
        draw_run(Toy(2), data, [], Path("folder"), seed=0)
    assert drawn == ["test", "valid", "train"]


def test_axes_of_a_table_have_the_names_of_its_columns_and_their_unit(tmp_path: Path) -> None:
    path = tmp_path / "houses.csv"
    lines = [f"{10 + 2 * i},{3 * i % 7},{100 * i + 7 * (i % 3)}" for i in range(60)]
    path.write_text("area,rooms,price\n" + "\n".join(lines) + "\n")
    scene = Scene.of(Toy(2), load_data(str(path), target="price"), 0)
    assert [scene.feature(0), scene.feature(1)] == ["area (standardized)", "rooms (standardized)"]
    assert scene.target == "price (standardized)"
    (drawn,) = run_module._sampled(scene).values()
    assert drawn.axes[0].get_xlabel() == "area (standardized)"
    diabetes = Scene.of(Toy(2), load_data("diabetes"), 0)
    assert (diabetes.feature(2), diabetes.target) == ("bmi (standardized)", "progression (standardized)")
    moons = Scene.of(Toy(2), load_data("moons"), 0)
    assert (moons.feature(1), moons.target) == ("feature 2", "value")


@pytest.mark.parametrize(
    ("model", "data", "telling"),
    [
        (Autoencoder(features=4, latent=2, hidden=(3,)), dataset("images", (1, 2, 2), "classes"), "reconstructions"),
        (MLP(features=2, classes=3, hidden=(3,)), dataset("points", (2,), "classes"), "decision_map"),
        (MLP(features=3, classes=3, hidden=(3,)), dataset("table", (3,), "classes"), "confusion"),
        (MLP(features=1, targets=1, hidden=(3,)), dataset("table", (1,), "real"), "function"),
        (MLP(features=3, targets=1, hidden=(3,)), dataset("table", (3,), "real"), "predictions"),
    ],
)
def test_one_figure_tells_most(model: Model[Any], data: Dataset[Any], telling: str) -> None:
    found = run_module.telling_figure(model, data, HISTORY)
    assert found is not None
    assert found[0] == telling
    assert telling in run_module.run_figures(model, data, HISTORY)
