"""What all tests of studies share: runs without pictures, which would take most of the time."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepcanon.pictures.draw_run", lambda *_: [])
