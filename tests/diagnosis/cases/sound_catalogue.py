"""Healthy cases: every model of the catalogue on its embedded data by its recipe."""

from __future__ import annotations

from deepcanon.blueprints import blueprint
from deepcanon.catalogue import entries
from deepcanon.data.suits import default_data
from tests.diagnosis.cases.case import HEALTHY, Case, Patient


def _by_recipe(name: str) -> Patient:
    asked = blueprint(name)
    data = default_data(asked)
    return Patient(asked.build(data.model_sizes, data.name), data, lambda _: 0.0)


def _register(name: str) -> None:
    def setting() -> Patient:
        return _by_recipe(name)

    HEALTHY.append(Case(f"{name} by its recipe", setting, "recipe"))


for entry in entries():
    if entry.module.startswith("deepcanon."):
        _register(entry.name)
