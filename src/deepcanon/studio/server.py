"""The server: one process on a loopback port, which gives nobody more time or more connections than a page needs."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from deepcanon.core.errors import UsageError
from deepcanon.studio.app import application
from deepcanon.studio.security import SECONDS_TO_SEND
from deepcanon.studio.studio import Studio

MOST_CONNECTIONS = 64


class Impatient(H11Protocol):
    """HTTP/1.1 that hangs up on a client which does not get its headers sent; bodies are the guard's to wait for."""

    patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def _wait(self) -> None:
        """Wait for headers from the first byte of a request on, not anew for each byte."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self.patience is None:
            self.patience = self.loop.call_later(SECONDS_TO_SEND, self.transport.close)

    def _stop_waiting(self) -> None:
        if self.patience is not None:
            self.patience.cancel()
            self.patience = None


class Server(uvicorn.Server):
    """A server that ends what it streams first, so that open pages do not keep it from ending."""

    def __init__(self, config: uvicorn.Config, studio: Studio) -> None:
        super().__init__(config)
        self.studio = studio

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await asyncio.to_thread(self.studio.close)
        await super().shutdown(sockets)


def bind(port: int) -> socket.socket:
    """A socket on the loopback interface; port 0 is any that is free."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise UsageError(f"port {port} cannot be used ({error.strerror}): name another by --port") from error
    return listener


def address_of(studio: Studio, listener: socket.socket) -> str:
    """The address to open; what stands after # is never sent to any server."""
    return f"http://127.0.0.1:{listener.getsockname()[1]}/#token={studio.token}"


def server(studio: Studio, listener: socket.socket) -> uvicorn.Server:
    """The server of a studio on a bound socket, to be run."""
    config = uvicorn.Config(
        application(studio, listener.getsockname()[1]),
        http=Impatient,
        ws="none",
        loop="asyncio",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=2**14,
        timeout_graceful_shutdown=1,
    )
    return Server(config, studio)


def serve(studio: Studio, listener: socket.socket, ready: Callable[[], object] = lambda: None) -> None:
    """Serve until somebody interrupts; ``ready`` is called when the page can be opened."""
    listener.listen()
    ready()
    try:
        server(studio, listener).run(sockets=[listener])
    finally:
        studio.close()
