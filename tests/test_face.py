"""The public face: what ``import deepcanon`` offers, lazily, and what type checkers see of it."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import deepcanon as dc
from deepcanon import catalogue
from deepcanon.core import arguments_of
from deepcanon.core.settings import RECIPE, listed_settings
from deepcanon.core.spec import RESERVED
from deepcanon.stubs import ROOT, stub_of


def offered(package: Any) -> list[str]:
    """The names that a lazy package offers."""
    return list(package.__all__)


def test_everything_that_is_offered_is_there() -> None:
    assert {"models", "methods", "nn", "laws", "Model", "Batch", "Run", "compare", "check", "study", "insight"} <= set(
        offered(dc)
    )
    for name in offered(dc):
        assert getattr(dc, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        dc.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, deepcanon as dc; dc.find, dir(dc); "
        "print([name for name in ('torch', 'numpy', 'matplotlib', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_one_model_imports_only_its_own_file() -> None:
    code = (
        "import sys, deepcanon as dc; dc.models.RealNVP, dc.find('mlp'); "
        "print(sorted(name for name in sys.modules if name.startswith('deepcanon.models.') and name.count('.') == 3))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = [name for name in ast.literal_eval(done.stdout) if not name.rpartition(".")[2].startswith("_")]
    assert found == ["deepcanon.models.feedforward.mlp", "deepcanon.models.flows.realnvp"]


@pytest.mark.parametrize("package", ["models", "methods"])
def test_the_stubs_are_those_of_the_tree(package: str) -> None:
    written = (ROOT / package / "__init__.pyi").read_text(encoding="utf-8")
    assert written == stub_of(package), "the tree has changed: python -m deepcanon.stubs"


def test_every_model_stands_in_its_package_under_the_name_of_its_class() -> None:
    shown = {getattr(package, name) for package in (dc.models, dc.methods) for name in offered(package)}
    assert shown == {catalogue.find(entry.name) for entry in catalogue.entries()}


def test_finding_a_model_opens_no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    read = Path.read_text

    def noted(self: Path, **how: Any) -> str:
        opened.append(self.name)
        return read(self, **how)

    monkeypatch.setattr(Path, "read_text", noted)
    assert catalogue.find("mlp").name() == "mlp"
    assert opened == []


def test_training_settings_are_listed_once() -> None:
    """The function, the command, the estimators and what constructors may not be called come from one list."""
    from deepcanon.cli.train import train
    from deepcanon.estimators import Classifier
    from deepcanon.train.settings import resolve_settings

    names = set(listed_settings())
    assert names <= RESERVED
    assert names <= set(inspect.signature(train).parameters)
    assert names - set(Classifier().get_params()) == {"seed", "keep", "checkpoint_every", "pictures"}
    helps = {name: get_args(train.__annotations__[name])[1].help for name in names}
    assert helps["seed"].endswith("(default: 0)")
    assert [name for name in names if "default: " in helps[name]] == [
        name for name in names if listed_settings()[name][1].default in (0, 1, 2, "constant", "auto", "fp32")
        and not isinstance(listed_settings()[name][1].default, bool)
    ]  # fmt: skip
    resolved: dict[str, Any] = dict(resolve_settings(dc.Recipe()))
    assert resolved.keys() == names
    assert all(resolved[name] == setting.default for name, (_, setting) in listed_settings().items()
               if setting.default is not RECIPE)  # fmt: skip
    for entry in catalogue.entries():
        assert not names & arguments_of(catalogue.find(entry.name)).keys()
