"""What tests of the studio share: runs, a server on a free port, and pages in a real browser that must not complain.

``page_of(served, "#/runs")`` opens the page in the Chromium of this machine. Whatever it writes to the console as an
error or a warning, every error that no script catches, and every request to another host fail the test at its end.
Where there is no browser, tests that ask for one are skipped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import deepcanon as dc

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

    from deepcanon.studio.studio import Studio

PATIENCE = 300_000.0
"""Milliseconds that a page may take to show what is expected, however busy the machine is."""


@dataclass(frozen=True)
class Served:
    """A studio that is being served."""

    studio: Studio
    address: str
    """The address with the token, as the terminal prints it."""

    @property
    def origin(self) -> str:
        return self.address.partition("/#")[0]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three finished runs, to be looked at: tests that change runs copy it."""
    folder = tmp_path_factory.mktemp("studio") / "runs"
    settings: dict[str, Any] = {"quiet": True, "epochs": 3}
    for seed in (0, 1):
        dc.Run.train("mlp:hidden=8", "moons", out=folder / f"mlp-{seed}", seed=seed, **settings)
    dc.Run.train(
        "vae:latent=2,hidden=16,likelihood=bernoulli", "digits:binary", out=folder / "deep" / "vae", **settings
    )
    return folder


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """A function that serves a folder of runs on a free port until the test ends: ``serve(folder, read_only=True)``."""
    with serving(tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="module")
def serve_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Served]]:
    """The same for tests that change nothing in a folder: one studio of each serves all tests of a file."""
    with serving(tmp_path_factory) as start:
        yield cache(start)


@contextmanager
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """A function that serves a folder of runs on a free port until the end."""
    pytest.importorskip("starlette", reason="needs starlette and uvicorn, of deepcanon[studio]")
    pytest.importorskip("uvicorn", reason="needs starlette and uvicorn, of deepcanon[studio]")
    from deepcanon.studio.server import address_of, bind, server
    from deepcanon.studio.studio import Studio

    running: list[tuple[Any, threading.Thread, Studio]] = []

    def start(folder: Path, **options: Any) -> Served:
        studio = Studio(folder, caches=tmp_path_factory.mktemp("caches"), **options)
        listener = bind(0)
        listener.listen()
        served = server(studio, listener)
        thread = threading.Thread(target=served.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((served, thread, studio))
        return Served(studio, address_of(studio, listener))

    yield start
    for served, thread, studio in running:
        served.should_exit = True
        thread.join(30)
        studio.close()


@pytest.fixture
def page_of(browser: Browser) -> Iterator[Callable[..., Page]]:
    """A function that opens a page of a studio; what the page complains about fails the test when it ends."""
    complaints: list[str] = []
    contexts = []

    def open_page(
        served: Served, view: str = "", *, dark: bool = False, phone: bool = False, refusals: bool = False
    ) -> Page:
        """With ``refusals`` the server may refuse what the page asks for, and the page may say so."""
        size = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 900}
        scheme: Any = "dark" if dark else "light"
        context = browser.new_context(viewport=size, color_scheme=scheme, has_touch=phone)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)

        def hear(said: ConsoleMessage) -> None:
            refused = refusals and ("(Bad Request)" in said.text or said.type == "warning")
            if said.type in ("error", "warning") and not refused:
                complaints.append(f"console: {said.text}")

        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))

        def dismiss(dialog: Dialog) -> None:
            complaints.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", dismiss)
        page.on(
            "request",
            lambda request: None if own(request.url, served) else complaints.append(f"foreign: {request.url}"),
        )
        page.goto(served.address)
        page.locator("#head nav a").first.wait_for()
        if view:
            page.goto(f"{served.origin}/{view}")
        page.locator("#main section.view").wait_for()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def settled(page: Page) -> None:
    """Wait until the view has all that it has asked for: nothing on the page says that it is busy."""
    page.locator("#main:not(:has([aria-busy]))").wait_for(state="attached")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")  # pictures fit then


def own(address: str, served: Served) -> bool:
    """Whether a request stays on this server, or goes to what the page itself has made."""
    return address.startswith((f"{served.origin}/", "data:", "about:"))
