"""All cases of the doctor's suites by name."""

from __future__ import annotations

import importlib

from tests.diagnosis.cases.case import FAULTS, HEALTHY, Case

MODULES = (
    "plain_code",
    "plain_loop",
    "plain_recipe",
    "plain_data",
    "plain_family",
    "plain_players",
    "catalogue_code",
    "catalogue_recipe",
    "catalogue_data",
    "catalogue_family",
    "catalogue_method",
    "sound_plain",
    "sound_catalogue",
)
"""The modules whose cases register themselves when they are imported."""


def faults(plain: bool | None = None) -> list[Case]:
    """The planted faults: those of plain modules, those of the catalogue's models, or all."""
    _load()
    return [case for case in FAULTS if plain is None or case.plain == plain]


def healthy() -> list[Case]:
    """The healthy cases."""
    _load()
    return list(HEALTHY)


def _load() -> None:
    for module in MODULES:
        importlib.import_module(f"tests.diagnosis.cases.{module}")
