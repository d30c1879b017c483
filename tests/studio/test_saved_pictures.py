"""A saved view holds the pictures that it showed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.studio.made import make_run, step

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.studio.conftest import Served


@pytest.mark.slow
def test_a_saved_run_holds_its_pictures(
    tmp_path: Path, serve: Callable[..., Served], page_of: Callable[..., Page]
) -> None:
    run = make_run(tmp_path / "runs" / "one", [step(1, 0.5), step(2, 0.4)])
    (run / "pictures").mkdir()
    Image.new("RGB", (7, 5), "#0072b2").save(run / "pictures" / "samples.png")
    served = serve(tmp_path / "runs")
    page = page_of(served, f"#/run?id={next(iter(served.studio.runs()))}")
    page.locator('#main img[src^="data:image/png"]').wait_for()
    page.wait_for_timeout(300)  # the picture is decoded
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save", exact=True).click()
    content = Path(saved.value.path()).read_text()
    assert "blob:" not in content
    assert 'src="data:image/png;base64,' in content
