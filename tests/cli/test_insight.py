"""An insight that is refused leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_a_refused_insight_leaves_no_empty_folder(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--out", "found"]):
        refused = call("insight", "receptive_field", "mlp", "--data", "digits", *more)
        assert refused.code == 2
        assert "convolution" in refused.stderr
    assert list(tmp_path.iterdir()) == []
