"""The shape of the tree: which way imports run, how long files are, what no file may hold."""

from __future__ import annotations

import ast
import importlib
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "deepcanon"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTS = ROOT / "tests"

LOW = {"core", "lazy"}
PARTS = LOW | {"nn", "distributions", "decoding", "augment", "losses"}
MAY_IMPORT = {
    "lazy": set[str](),
    "core": {"lazy"},
    "tensor": set[str](),
    **dict.fromkeys(("nn", "distributions", "decoding", "augment", "losses", "optim", "data", "pictures"), LOW),
    **dict.fromkeys(("models", "methods"), PARTS),
    "laws": LOW | {"nn", "tensor", "pictures"},
    "microscopy": LOW | {"tensor"},
    "insights": LOW | {"nn", "tensor", "pictures", "microscopy"},
    "train": LOW | {"optim", "data", "pictures", "runs"},
    "runs": LOW | {"nn", "data", "train", "pictures", "interop", "catalogue", "blueprints"},
    "comparison": LOW | {"losses", "data", "train", "runs", "pictures", "blueprints"},
    "catalogue": LOW,
    "blueprints": LOW | {"catalogue", "runs"},
    "stubs": LOW,
    "studies": LOW | {"nn", "losses", "optim", "data", "train", "runs", "insights", "laws", "pictures", "comparison"},
}
"""What each part may import of the others."""

STORAGE = {
    f"deepcanon.runs.{name}"
    for name in ("folder", "folder_parts", "checkpoint", "tree", "contents", "log_lines", "stored_tensors")
}
"""What a run's folder holds: the trainer writes it, so it stands below the trainer, and the rest of ``runs`` above."""

TOPS = {"cli", "studio", "__init__", "__main__"}
"""What may import everything, and what nothing else may import."""

BRIDGES = {"interop", "estimators", "questions", "diagnosis"}
"""What may import everything but the tops."""

FOREIGN = {"core": {"torch", "pydantic", "typing_extensions"}, "tensor": {"numpy"}}
"""The only other libraries that the lowest parts may import."""

SOLVERS = {
    "deepcanon.core.graph_spectrum": {"scipy"},
    "deepcanon.core.graph_making": {"scipy"},
    "deepcanon.core.graph_communities": {"scipy", "networkx"},
}
"""What may import more: torch has no eigenvalues of large sparse matrices, no search trees and no communities."""

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}

RESTRICTED = {"deepcanon.data.sets.planetoid": ["pickle"]}
"""What may read pickles after all: published files that come as nothing else, by a reader that calls no other code."""

MACHINE_PATH = re.compile(r"(?<![\w.~])/(?:work|root|home|Users|tmp/w)/")


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def part_of(module: str) -> str:
    """The part of the tree a module belongs to: ``deepcanon.nn.dense`` to nn, ``deepcanon.catalogue`` to itself."""
    return module.split(".")[1] if "." in module else "__init__"


def imports(tree: ast.AST) -> Iterator[str]:
    """Every module that a file imports, wherever it does; a relative import is one of its own kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                inside = f"{module}.{alias.name}"
                path = PACKAGE.parent.joinpath(*inside.split("."))
                yield inside if path.is_dir() or path.with_suffix(".py").is_file() else module


def wrong_imports(module: str, source: str) -> list[str]:
    """The imports of a module of the package that run against the direction of the tree."""
    part = part_of(module)
    wrong = []
    for target in imports(ast.parse(source)):
        top = target.partition(".")[0]
        if target.startswith(".") or target == "matplotlib.pyplot":
            wrong.append(target)
        elif top == "deepcanon":
            if not _may_import(module, part, target):
                wrong.append(target)
        elif part in FOREIGN and top not in FOREIGN[part] | SOLVERS.get(module, set()) | sys.stdlib_module_names:
            wrong.append(target)
    return wrong


def _may_import(module: str, part: str, target: str) -> bool:
    wanted = part_of(target)
    if part in TOPS:
        return True
    if part in BRIDGES:
        return wanted not in TOPS
    if part in ("models", "methods") and wanted in ("models", "methods"):
        return wanted == part and target.rpartition(".")[2].startswith("_")  # an engine, never another model
    if module in STORAGE:
        return target in STORAGE or wanted in LOW | {"data"}
    if part == "train" and wanted == "runs":
        return target in STORAGE
    return wanted == part or wanted in MAY_IMPORT[part]


def unpickling(source: str) -> list[str]:
    """Where a file could unpickle something."""
    found = [module for module in imports(ast.parse(source)) if module.partition(".")[0] in PICKLES]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            allowed = [keyword.value for keyword in node.keywords if keyword.arg == "allow_pickle"]
            if called == "torch.load" or any(ast.unparse(value) != "False" for value in allowed):
                found.append(called)
    return found


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("deepcanon.core.model", "import numpy"),
        ("deepcanon.core.model", "from deepcanon.nn import dense"),
        ("deepcanon.core.graph", "def f():\n    import scipy"),
        ("deepcanon.tensor.storage", "import torch"),
        ("deepcanon.nn.dense", "from deepcanon.data import load_data"),
        ("deepcanon.models.linear.one", "from deepcanon.train import fit"),
        ("deepcanon.models.linear.one", "from deepcanon import data"),
        ("deepcanon.models.linear.one", "def f():\n    import deepcanon.cli"),
        ("deepcanon.models.linear.one", "from deepcanon.models.linear.two import Two"),
        ("deepcanon.models.linear.one", "from .two import Two"),
        ("deepcanon.methods.bagging", "from deepcanon.models.linear._engine import Engine"),
        ("deepcanon.laws.contract", "from deepcanon.models.linear.one import One"),
        ("deepcanon.laws.contract", "from deepcanon.catalogue import find"),
        ("deepcanon.train.trainer", "from deepcanon import catalogue"),
        ("deepcanon.studies.doctor", "from deepcanon.models.linear.one import One"),
        ("deepcanon.pictures.curves", "import matplotlib.pyplot as plt"),
        ("deepcanon.pictures.curves", "from deepcanon.data import Dataset"),
        ("deepcanon.interop.onnx", "from deepcanon.cli import main"),
        ("deepcanon.catalogue", "import deepcanon.studio"),
        ("deepcanon.catalogue", "from deepcanon.models.linear.one import One"),
        ("deepcanon.train.trainer", "from deepcanon.runs.run import Run"),
        ("deepcanon.runs.folder", "from deepcanon.train import fit"),
        ("deepcanon.runs.run", "from deepcanon.comparison.compare import compare"),
    ],
)
def test_a_wrong_import_is_seen(module: str, source: str) -> None:
    assert wrong_imports(module, source) != []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("deepcanon.core.model", "import json, torch.nn\nfrom deepcanon.core.turn import Turn"),
        ("deepcanon.core.graph_spectrum", "from scipy.sparse.linalg import eigsh"),
        ("deepcanon.models.linear.one", "from deepcanon.models.linear._engine import Engine"),
        ("deepcanon.models.linear.one", "from deepcanon.models._predictor import Predictor"),
        ("deepcanon.studies.doctor", "from deepcanon.laws import check"),
        ("deepcanon.interop.onnx", "from deepcanon.runs.resume import load"),
        ("deepcanon.train.trainer", "from deepcanon.runs.folder import RunFolder"),
        ("deepcanon.runs.resume", "from deepcanon.train.trainer import Trainer"),
        ("deepcanon.cli.app", "from deepcanon import catalogue, train"),
        ("deepcanon", "from deepcanon.train import fit"),
    ],
)
def test_a_right_import_is_let_pass(module: str, source: str) -> None:
    assert wrong_imports(module, source) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_source_file_keeps_to_the_shape_of_the_tree(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    module = module_name(path).removesuffix(".__init__")
    known = {*MAY_IMPORT, *TOPS, *BRIDGES}
    assert part_of(module) in known, f"{module} is in no part of the tree that this test knows; name it here"
    assert wrong_imports(module, source) == []
    assert unpickling(source) == RESTRICTED.get(module, [])
    assert len(source.splitlines()) <= 400


def test_what_unpickles_is_seen() -> None:
    assert unpickling("import pickle") == ["pickle"]
    assert unpickling("from joblib import load") == ["joblib"]
    assert unpickling("import torch\nx = torch.load('a.pt', weights_only=True)") == ["torch.load"]
    assert unpickling("np.load('a.npy', allow_pickle=True)") == ["np.load"]
    assert unpickling("np.load('a.npy', allow_pickle=asked)") == ["np.load"]
    assert unpickling("np.load('a.npy', allow_pickle=False)") == []
    assert unpickling("safetensors.torch.load(content)") == []


SHARED_STEMS = {
    "activations": "the activations that nn has and a study measures",
    "attention": "the layer and its picture",
    "data": "the data of a run",
    "errors": "our errors, and those of the tensor",
    "filters": "the filters of a convolution, learned ones and classical ones",
    "graph_attention": "the layer and the model",
    "graph_spectrum": "the eigenvalues of a graph, and what an insight says of them",
    "series": "the batch type, and the data set of them",
    "settings": "the list of training settings, and its resolution",
    "layers": "the layers of any model, as insights and methods list them",
    "gru": "the layer and the model",
    "lstm": "the layer and the model",
    "markov_chain": "the model, and the baseline that chooses its order",
    "positions": "the layers, and what an insight measures of them",
    "rnn": "the layer and the model",
    "word_vectors": "the engine of their models, and their picture",
}
"""Stems that stand in several folders for the same thing, each with the reason; no stem may mean two things."""


def test_no_stem_means_two_things() -> None:
    homes: dict[str, set[str]] = {}
    named_as_what_they_treat = ("laws", "cli", "studio")
    for path in SOURCES:
        if path.stem != "__init__" and part_of(module_name(path)) not in named_as_what_they_treat:
            homes.setdefault(path.stem.lstrip("_"), set()).add(str(path.relative_to(PACKAGE).parent))
    twice = {stem: sorted(folders) for stem, folders in homes.items() if len(folders) > 1}
    assert {stem: folders for stem, folders in twice.items() if stem not in SHARED_STEMS} == {}


@pytest.mark.parametrize("package", ["nn", "distributions", "decoding", "augment", "losses"])
def test_a_package_of_parts_exports_all_that_is_public(package: str) -> None:
    found = importlib.import_module(f"deepcanon.{package}")
    public = {
        node.name
        for path in (PACKAGE / package).glob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    }
    assert set(found.__all__) == public
    assert all(hasattr(found, name) for name in public)


def test_every_model_file_has_its_test_file() -> None:
    files = [*PACKAGE.glob("models/*/*.py"), *PACKAGE.glob("methods/*.py")]
    models = [path.relative_to(PACKAGE) for path in files if not path.name.startswith("_")]
    assert models
    missing = [path for path in models if not (TESTS / path.parent / f"test_{path.name}").is_file()]
    assert missing == []


def test_the_median_model_is_short() -> None:
    lengths = [
        len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.glob("models/*/*.py")
        if not path.name.startswith("_")
    ]
    assert statistics.median(lengths) <= 110


@pytest.mark.slow
def test_no_file_names_a_place_on_somebodys_machine() -> None:
    assert MACHINE_PATH.search('open("/' + 'home/me/x")')
    assert not MACHINE_PATH.search("https://example.org/home/page and ~/home/x")
    kinds = {".py", ".md", ".toml", ".txt", ".cfg", ".cff", ".yml", ".yaml", ".sh", ".html", ".css", ".js", ""}
    places = (ROOT / name for name in ("src", "tests", "docs", "benchmarks", ".ci"))
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    files += [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # the file of a git worktree
    texts = [path for path in files if path.suffix in kinds and "egg-info" not in str(path)]
    found = [str(path) for path in texts if MACHINE_PATH.search(path.read_text(encoding="utf-8", errors="ignore"))]
    assert found == []


def test_the_command_line_and_the_catalogue_do_not_import_torch() -> None:
    code = (
        "import sys, deepcanon, deepcanon.cli, deepcanon.catalogue as c; assert c.entries(); "
        "print([name for name in ('torch', 'matplotlib', 'sklearn', 'scipy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_file_that_the_architecture_names_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = page.partition("## Four straight lines")[2].partition("## The contract")[0]
    named = set(re.findall(r"`((?:\w+/)+\w+\.py|\w+\.py)`", lines))
    assert len(named) > 30
    assert {name for name in named if not list(PACKAGE.rglob(name))} == set()
