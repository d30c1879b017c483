"""What Python users see in a terminal or a notebook: short lines, small tables, figures that show themselves."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core.display import LARGEST_PAGE, MOST_ROWS, Pictures, Shown, framed, sentences, table
from deepcanon.core.toy import Toy
from deepcanon.data.images.image_files import ImageFiles, Reader
from deepcanon.laws.outcome import Outcome, Outcomes
from deepcanon.pictures.run_pictures import draw_run
from deepcanon.train import Observer, Trainer
from deepcanon.train.live_curve import Course

SHORT = 500
"""The most characters of the line that any object of ours shows."""

NUMBERS = 1100
"""The most characters of a tensor of ours, which shows its first and last numbers."""

PUBLIC = (dc, dc.data, dc.train, dc.laws, dc.tensor, dc.optim, dc.losses, dc.pictures, dc.models, dc.methods, dc.nn)

NOT_DISPLAYED: dict[Any, str] = {
    dc.Trainer: "the training at work, which observers are handed",
    dc.Observer: "a base class, whose subclasses are their authors'",
    dc.Doctor: "an observer of a training, whose findings are reports",
    dc.Film: "an observer of a training, whose pictures lie in its run",
    **dict.fromkeys(
        (dc.TensorBoard, dc.MLflow, dc.Trackio, dc.Wandb), "an observer that logs to a tool that may be missing"
    ),
    dc.AnyBatch: "a base class",
    dc.Model: "a base class",
}
"""Public classes without an instance here, and why."""


def ours(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "deepcanon"


def reachable(*roots: Any) -> Iterator[Any]:
    """Every object of a class of ours that can be reached from these by attributes and through collections."""
    seen: dict[int, Any] = {}
    waiting = [*roots]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen[id(value)] = value
        if isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list | tuple | set):
            waiting += list(value)[:50]
        if ours(value):
            yield value
            slots = (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
            waiting += [*getattr(value, "__dict__", {}).values(), *slots]


def too_long(*roots: Any) -> list[str]:
    """What is wrong with the lines of all objects that can be reached from these, one sentence each."""
    wrong = []
    for value in reachable(*roots):
        line, kind = repr(value), type(value).__name__
        if isinstance(value, nn.Module) and not isinstance(value, dc.Model):
            continue  # a layer: torch shows its parts
        if len(line) > (NUMBERS if isinstance(value, dc.tensor.Tensor) else SHORT):
            wrong.append(f"{kind} shows {len(line):,} characters")
        if " object at 0x" in line and any(getattr(package, kind, None) is type(value) for package in PUBLIC):
            wrong += [f"{kind} shows no more than its address"] if type(value) not in NOT_DISPLAYED else []
    return wrong


class Last(Observer):
    """Keeps the trainer."""

    trainer: Trainer

    def end(self, trainer: Trainer) -> None:
        self.trainer = trainer


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One of each thing that the public functions return."""
    folder, last = tmp_path_factory.mktemp("shown"), Last()
    run = dc.Run.train("mlp:hidden=16", "moons", out=folder / "run", epochs=2, quiet=True, observers=[last])
    history = last.trainer.log.history
    drawn = draw_run(run.model, run.data, history, run.folder.pictures, seed=0)  # which the tests leave out elsewhere
    digits = dc.load_data("digits")
    x = torch.zeros(40, 3)
    matrix = dc.tensor.tensor(np.random.default_rng(0).normal(size=(6, 7, 8, 9)), requires_grad=True)
    return {
        "Dataset": digits,
        "graph data": dc.load_data("karate"),
        "table": dc.load_data("diabetes"),
        "text": dc.load_data("stories"),
        "batches": [
            dc.data.Batches(digits.train, 7),
            dc.data.of(x), dc.data.of(x, torch.arange(40)),
            dc.SemiBatch(x[:4], torch.arange(4), x),
            dc.Captioned(x, torch.ones(40, 5).long(), torch.full((40,), 5)),
            dc.Videos(torch.zeros(2, 3, 1, 4, 4), torch.tensor([3, 2])),
            dc.nn.KVCache(4), dc.nn.RunningSums(), dc.nn.balanced_tree(5), dc.nn.ApproximateSearch(torch.ones(9, 3)),
            dc.nn.StridedStages((1, 8, 8), (4,), "relu"), dc.nn.image_ends(64, (1, 8, 8), (), "relu"),
            dc.nn.convolution_count((1, 1, 3, 3), (8, 8)),
            dc.TwoDomains(x, x), dc.ImagePairs(x, x),
        ],
        "Run": run,
        "pictures": drawn,
        "Result": dc.fit(dc.models.MLP(64, 10), digits, epochs=1, quiet=True),
        "model": run.model,
        "Compared": dc.compare(
            ["softmax_regression", "mlp:hidden=4"], "moons", folder / "compared", budget=0.1, baselines=["logistic"]
        ),
        "check": dc.check(nn.Dropout(0.5), "dropout"),
        "Finding": dc.insight("signal_propagation", run),
        "microscope": dc.microscope(run),
        "blueprint": dc.blueprint("vae:latent=3"),
        "Recipe": dc.models.MLP.recipe,
        "tensor": [matrix, dc.tensor.tensor(np.zeros((2,) * 12)), dc.tensor.trace((matrix * 2).sum())],
        "trainer": last.trainer,
    }  # fmt: skip


def test_whatever_is_returned_is_shown_in_a_line_that_is_short(everything: dict[str, Any]) -> None:
    assert too_long(everything) == []


@pytest.mark.slow
def test_every_model_its_batches_and_its_turns_are_shown_in_a_line_that_is_short(everything: dict[str, Any]) -> None:
    """And there is no public class of which nothing is seen here."""
    examples: list[Any] = []
    for entry in catalogue.entries():
        model, batch = catalogue.find(entry.name).example()
        examples += [model, batch, list(model.turns())]
    assert too_long(*examples) == []
    seen = {type(value) for value in reachable(everything, *examples)}
    plain = (nn.Module, torch.optim.Optimizer, BaseException)
    missing = {
        kind
        for package in PUBLIC
        for name in package.__all__
        if inspect.isclass(kind := getattr(package, name)) and ours_and_displayed(kind) and not issubclass(kind, plain)
    } - seen
    assert missing == NOT_DISPLAYED.keys() - seen - {dc.Model}


def ours_and_displayed(kind: type) -> bool:
    """Whether instances of this class are made: it is no protocol and no typed dictionary."""
    made = not getattr(kind, "_is_protocol", False) and not hasattr(kind, "__required_keys__")
    return made and kind.__module__.startswith("deepcanon")


def test_a_line_that_is_long_is_seen() -> None:
    class Bare:
        def __repr__(self) -> str:
            return "x" * 501

    Bare.__module__ = "deepcanon.core.bare"
    assert too_long({"a": [Bare()]}) == ["Bare shows 501 characters"]


def test_a_line_says_the_essentials(everything: dict[str, Any]) -> None:
    lines = {name: repr(value) for name, value in everything.items()}
    for name, words in {
        "Dataset": ("'digits'", "images", "(1, 8, 8)", "train=1257", "test=360", "'classes': 10"),
        "graph data": ("'karate'", "graph"),
        "Run": ("mlp", "moons", "finished", "accuracy"),
        "Result": ("MLP(features=64, classes=10)", "steps=", "accuracy"),
        "model": ("MLP(features=2, classes=2, hidden=(16,))", "82 parameters"),
        "Compared": ("moons", "softmax_regression", "mlp:hidden=4", "report.html"),
        "check": ("laws hold, 0 fail",),
        "microscope": ("mlp", "edges=", "mismatches=0"),
    }.items():
        for word in words:
            assert word in lines[name], lines[name]
    batch = everything["Dataset"].train
    assert repr(batch) == "Labeled(x=float32 (1257, 1, 8, 8), y=int64 (1257,))"
    assert repr(everything["graph data"].train.graph) == "Graph(nodes=34, edges=156)"
    assert "shape=(6, 7, 8, 9)" in repr(everything["tensor"][0])
    assert "Linear(in_features=2, out_features=16" in str(everything["model"]), "print shows the layers, as torch does"


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
def test_what_ends_a_cell_is_a_small_table(everything: dict[str, Any]) -> None:
    for name, words in {
        "Dataset": ("digits", "1257"),
        "Run": ("finished", "accuracy", "beats the class prior"),
        "Result": ("accuracy", "train", "valid", "test"),
        "Compared": ("softmax_regression", "log loss", "report.html"),
        "check": ("holds", "measured"),
        "microscope": ("torch.autograd",),
        "model": ("MLP(features=2, classes=2, hidden=(16,))", "net.0", "weight 16x2, bias 16", "predict", "relu"),
        "graph data": ("karate", "Mr. Hi", "node 33"),
        "Finding": tuple(everything["Finding"].says[:1]),
    }.items():
        html = everything[name]._repr_html_()
        page = Page(html)
        around = re.sub(r'srcdoc="[^"]*"', "", re.sub(r"base64,[^\"]*", "", html))
        assert len(around) < 20_000
        assert "table" in page.tags
        for word in words:
            assert word in page.text, (name, word, page.text)


SCRIPT = "<script>alert(1)</script>"


def test_names_that_are_scripts_stay_text(everything: dict[str, Any], tmp_path: Path) -> None:
    x, y = torch.zeros(30, 2), torch.arange(30) % 2
    data = dc.Dataset(SCRIPT, "points", dc.Labeled(x, y), sizes={SCRIPT: 1}, labels=(SCRIPT, '"><img onerror=x>'))
    result = everything["Result"]
    spoiled = dc.Result(
        result.model, Path(SCRIPT), 1, 1.0, SCRIPT, {SCRIPT: 1.0}, {}, {}, [], says=[SCRIPT], course=[SCRIPT]
    )
    outcomes = Outcomes([Outcome(SCRIPT, False, 1.0, 0.0, SCRIPT)])
    finding = dc.Finding({SCRIPT: 1}, everything["Finding"].figure, (SCRIPT,))
    run = dc.Run(everything["Run"].dir)
    run.folder.info["data"]["name"] = run.folder.info["results"]["says"] = SCRIPT
    run.folder.info["results"]["test"][SCRIPT] = 1.0
    compared = everything["Compared"]
    asked = {**compared.content["request"], "data": SCRIPT}
    runs = [{**each, "label": SCRIPT, "data": SCRIPT} for each in compared.content["runs"]]
    spoiled_comparison = type(compared)(
        {**compared.content, "request": asked, "runs": runs}, Path(SCRIPT), Path(SCRIPT)
    )
    pictures = everything["Run"].pictures[:1]
    (tmp_path / "<script>.png").write_bytes(pictures[0].read_bytes())
    edges = torch.tensor([[0, 1], [1, 0]])
    graph = dc.Graph(edges, nodes=2, names=(SCRIPT, SCRIPT))
    model = named_script()
    course = Course(SCRIPT, SCRIPT, [{"kind": "step", "step": 1, "loss": 1.0, "terms": {SCRIPT: 1.0, "b": 0.0}}])
    shown = [
        graph,
        model,
        course,
        data,
        spoiled,
        outcomes,
        finding,
        run,
        spoiled_comparison,
        Pictures([tmp_path / "<script>.png"]),
    ]
    for each in shown:
        page = Page(each._repr_html_())
        assert "script" not in page.tags, type(each)
        assert "<script>" in page.text, type(each)
        assert set(page.tags) <= {
            "div", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "p", "img", "figure",
            "figcaption", "small", "wbr", "span", "svg", "g", "line", "circle", "polyline", "polygon", "rect", "text",
            "title", "br",
        }  # fmt: skip


def named_script() -> Any:
    """A model of a user, with a script for an argument and for the name of a layer."""

    class Own(Toy):
        def __init__(self, features: int, words: str) -> None:
            super().__init__(features)
            self.add_module(SCRIPT, nn.Linear(1, 1))

    return Own(2, SCRIPT)


def test_a_page_inside_a_notebook_reaches_nothing_around_it(everything: dict[str, Any]) -> None:
    for name in ("microscope", "Compared"):
        html = everything[name]._repr_html_()
        assert re.findall(r'sandbox="([^"]*)"', html) == ["allow-scripts"]  # without its origin
        assert "<script" not in html.replace(html[html.index("<iframe") :], "")
    assert "too much to be shown" in framed("x" * (LARGEST_PAGE + 1), "page")
    assert "iframe" not in framed("x" * (LARGEST_PAGE + 1), "page")


def test_long_tables_and_lists_are_cut() -> None:
    page = Page(table(["n"], [[str(n), "x" * 10_000] for n in range(1000)]) + sentences(["y" * 10_000] * 1000))
    assert page.tags.count("td") == MOST_ROWS
    assert page.tags.count("li") == MOST_ROWS
    assert "and 960 more" in page.text
    assert len(page.text) < 20_000
    assert Page(table([], [["classes", [str(n) for n in range(100)]]])).text.endswith("10, 11 and 88 more")
    assert len(repr(Pictures([Path("a" * 100)] * 100))) <= SHORT


def test_a_dataclass_of_a_user_shows_no_number_either() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True, eq=False)
    class Own(dc.Batch):
        extra: torch.Tensor

    assert repr(Own(torch.zeros(1000, 3), torch.ones(1000))) == "Own(x=float32 (1000, 3), extra=float32 (1000,))"
    assert issubclass(dc.Batch, Shown)


def test_images_on_disk_are_not_read_to_be_shown() -> None:
    batch = ImageFiles([Path("nowhere.png")] * 3, torch.arange(3), Reader((1, 8, 8), "nowhere.png"))
    assert repr(batch) == "ImageFiles(files=3, shape=(1, 8, 8), y=int64 (3,))"


def test_a_model_of_a_user_shows_any_argument() -> None:
    class Own(Toy):
        def __init__(
            self, features: int, prior: torch.Tensor, names: tuple[str, ...] = ("a",), scale: float = 1.0
        ) -> None:
            super().__init__(features)

    model = Own(2, torch.zeros(1000), names=("x",) * 1000)
    assert (
        repr(model)
        == "Own(features=2, prior=float32 (1000,), names=('x', 'x', 'x', 'x', 'x', 'x', ...)) of 2 parameters"
    )
    assert len(repr(dc.models.ConditionalVAE.example()[0].given(1))) < SHORT


@pytest.mark.slow
def test_figures_show_themselves_without_pyplot(everything: dict[str, Any], tmp_path: Path) -> None:
    figure = dc.pictures.scatter({"data": torch.randn(20, 2)}, "points")
    png = figure._repr_png_()  # type: ignore[attr-defined]
    assert png.startswith(b"\x89PNG")
    path = dc.pictures.save(figure, tmp_path / "points.png")
    assert path == tmp_path / "points.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert len(figure._repr_png_()) > 0.9 * len(png), "a figure that was saved can still be shown"  # type: ignore[attr-defined]
    html = everything["Finding"]._repr_html_()
    assert "img" in Page(html).tags
    assert everything["Finding"].says[0][:40] in Page(html).text
    pictures = everything["pictures"]
    assert isinstance(pictures, Pictures)
    assert sorted(pictures) == everything["Run"].pictures
    page = Page(pictures._repr_html_())
    assert page.tags.count("img") == len(pictures) >= 2
    for path in pictures:
        assert str(path) in page.text


@pytest.mark.parametrize("module", [*PUBLIC, dc.estimators], ids=lambda module: module.__name__)
def test_completion_offers_what_is_public_and_nothing_else(module: types.ModuleType) -> None:
    offered = {name for name in module.__all__ if not name.startswith("__")}
    assert {name for name in dir(module) if not name.startswith("__")} == offered
    for name in module.__all__:
        assert hasattr(module, name)


def test_completion_finds_what_users_begin_with() -> None:
    assert {"fit", "load_data", "Run", "from_tensors", "compare", "train", "Observer"} <= set(dir(dc))
    assert not {"Any", "Path", "attach", "annotations"} & set(dir(dc))
