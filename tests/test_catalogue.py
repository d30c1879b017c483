"""The file tree is the registry; other packages join through entry points."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import deepcanon
from deepcanon import catalogue
from deepcanon.core import UsageError
from deepcanon.core.toy import Toy


def test_every_model_file_is_an_entry_and_is_found_by_its_name() -> None:
    root = Path(deepcanon.__file__).parent
    files = [*root.glob("models/*/*.py"), *root.glob("methods/*.py")]
    names = {file.stem for file in files if not file.stem.startswith("_")}
    assert {entry.name for entry in catalogue.entries()} == names
    assert {"softmax_regression", "mlp", "vae", "gan", "hopfield"} <= names
    for entry in catalogue.entries():
        cls = catalogue.find(entry.name)
        assert cls.name() == entry.name
        assert cls.__doc__ is not None
        assert entry.summary == cls.__doc__.strip().splitlines()[0]


def test_names_forgive_case_and_hyphens_and_near_misses_get_advice() -> None:
    assert catalogue.find("Softmax-Regression") is catalogue.find("softmax_regression")
    with pytest.raises(UsageError, match=r"did you mean hopfield\?"):
        catalogue.find("hopfeild")
    with pytest.raises(UsageError, match="deepcanon list"):
        catalogue.find("zzzz")


def test_other_packages_add_models_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    good = EntryPoint("toy", "deepcanon.core.toy:Toy", catalogue.GROUP)
    bad = EntryPoint("bad", "pathlib:Path", catalogue.GROUP)
    monkeypatch.setattr(catalogue, "_points", lambda: (good, bad))
    catalogue.entries.cache_clear()
    try:
        assert catalogue.find("toy") is Toy
        assert catalogue.find("Toy") is Toy
        assert "toy" in [entry.name for entry in catalogue.entries()]
        with pytest.raises(UsageError, match="not a deepcanon Model"):
            catalogue.find("bad")
    finally:
        catalogue.entries.cache_clear()


def test_listing_needs_no_torch() -> None:
    code = "import sys, deepcanon.catalogue as c; c.entries(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
