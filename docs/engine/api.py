"""Pages of the API reference: one for each public package, with the classes and functions that it exports."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType

from docs.engine import rest

PACKAGES = {
    "deepcanon": "Everything that a user calls first.",
    "deepcanon.core": "The contract: models, batches, turns, recipes, errors.",
    "deepcanon.data": "Data sets, and how files become ones.",
    "deepcanon.train": "The one trainer.",
    "deepcanon.nn": "Layers that torch.nn lacks.",
    "deepcanon.distributions": "Likelihoods and heads of networks.",
    "deepcanon.losses": "Losses that are not a negative log-likelihood.",
    "deepcanon.optim": "Optimizers and schedules by name.",
    "deepcanon.decoding": "Generation and search of tokens.",
    "deepcanon.augment": "Motions, perturbations and views of examples.",
    "deepcanon.pictures": "Figures from numbers.",
    "deepcanon.laws": "Checks of any module.",
    "deepcanon.tensor": "A tensor with automatic differentiation on NumPy alone.",
    "deepcanon.estimators": "The interface of scikit-learn.",
    "deepcanon.interop": "Files and weights of other libraries.",
}
"""The public packages and a sentence for each."""


def pages() -> Iterator[tuple[str, str]]:
    """The pages of the reference as addresses and texts."""
    rows = []
    for name, sentence in PACKAGES.items():
        address = f"api/{name.removeprefix('deepcanon.')}"
        rows.append((rest.link(address, name), sentence))
        yield address, _package(name, sentence)
    yield (
        "api/index",
        rest.page(
            rest.title("API reference"),
            "What the packages export. Models and methods have pages of their own: :doc:`/models/index`.",
            rest.table(["package", "what it holds"], rows),
        ),
    )


def _package(name: str, sentence: str) -> str:
    module = importlib.import_module(name)
    members = list(_members(name, module)) or list(_of_modules(name, module))
    broken = name.replace(".", ".\u200b")  # where a narrow screen may break it
    return rest.page(rest.title(broken), sentence, *members, orphan=True)


def _of_modules(name: str, package: ModuleType) -> Iterator[str]:
    """What the modules of a package define that exports nothing itself, each under its own heading."""
    for each in pkgutil.iter_modules(package.__path__, f"{name}."):
        module = importlib.import_module(each.name)
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == each.name]
        members = list(_documented(each.name, module, [name for name in own if not name.startswith("_")]))
        if members:
            yield rest.title(each.name, "-")
            yield from members


def _members(name: str, module: object) -> Iterator[str]:
    exported = getattr(module, "__all__", None) or [each for each in vars(module) if not each.startswith("_")]
    return _documented(name, module, exported)


def _documented(name: str, module: object, members: Iterable[str]) -> Iterator[str]:
    for each in sorted(members):
        value = getattr(module, each)
        home = str(getattr(value, "__module__", ""))
        if not home.startswith("deepcanon") or not hasattr(value, "__name__"):
            continue  # a constant, a package inside this one, or what another library made
        if name == "deepcanon.estimators" and home != name:
            continue
        path = f"{name}.{each}"
        if inspect.isclass(value):
            foreign = [each for each in dir(value) if each.startswith("set_") and each.endswith("_request")]
            hidden = f"   :exclude-members: {', '.join(foreign)}\n" if foreign else ""  # which scikit-learn adds
            yield f".. autoclass:: {path}\n   :members:\n{hidden}   :no-index:\n"
        elif inspect.isroutine(value):
            yield f".. autofunction:: {path}\n   :no-index:\n"
