"""Runs made without training, and a studio on a free port: what the tests of the studio share."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from deepcanon.core.files import seal
from deepcanon.runs.log_lines import log_lines
from deepcanon.studio.server import bind, server
from deepcanon.studio.studio import Studio


def info_of(**changes: Any) -> dict[str, Any]:
    """What ``run.json`` of a small finished run holds."""
    return {
        "format": 1, "status": "finished", "created": "2026-01-02T03:04:05+00:00",
        "model": {"model": "mlp", "arguments": {"features": 2, "classes": 2, "hidden": [64]}},
        "classes": {}, "parameters": 322, "dtype": "float32",
        "data": {"name": "moons", "kind": "rows", "source": "made", "target": None, "reading": {}, "sizes": {},
                 "shape": [2], "labels": [], "vocabulary": [], "target_vocabulary": [], "preprocessing": {},
                 "fingerprint": "0"},
        "settings": {"epochs": 2, "lr": 0.01, "seed": 0, "batch_size": 32},
        "environment": {"deepcanon": "0", "torch": "2", "python": "3.11", "threads": 1, "processes": 1},
        "weights": "best",
        "results": {"steps": 2, "seconds": 1.5, "train": {"nll": 0.1}, "valid": {"nll": 0.2},
                    "test": {"nll": 0.3, "accuracy": 0.9}},
        **changes,
    }  # fmt: skip


def step(number: int, loss: float, **more: Any) -> dict[str, Any]:
    """A record of a step."""
    return {"kind": "step", "step": number, "epoch": 1 + number // 50, "seconds": number / 100, "terms": {"nll": loss},
            "loss": loss, "lr": 0.01, "grad_norm": 1.0, **more}  # fmt: skip


def epoch(number: int, **valid: float) -> dict[str, Any]:
    """A record of the end of an epoch."""
    return {"kind": "epoch", "step": number, "epoch": 1 + number // 50, "seconds": number / 100, "valid": valid}


def make_run(folder: Path, records: Iterable[Mapping[str, Any]] = (), **changes: Any) -> Path:
    """The folder of a run with these records."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_bytes(log_lines(records, 0)[0])
    (folder / "run.json").write_bytes(seal(info_of(**changes)))
    return folder


@dataclass
class Served:
    """A studio that answers on a port."""

    studio: Studio
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/#token={self.studio.token}"

    def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer; the token is sent unless headers say otherwise."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Authorization": f"Bearer {self.studio.token}", **(headers or {})}
        content = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method, path, content, {key: value for key, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        status, _, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        status, _, answer = self.ask("POST", path, body)
        return status, json.loads(answer)

    def raw(self, content: bytes, seconds: float = 10) -> bytes:
        """What comes back for these very bytes, until the server hangs up or says no more."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as line:
            line.sendall(content)
            received = b""
            try:
                while piece := line.recv(65536):
                    received += piece
                    if b"\r\n\r\n" in received and b"connection: close" not in received.lower():
                        return received
            except (TimeoutError, ConnectionResetError):
                pass
            return received


@contextmanager
def served(root: Path, **options: Any) -> Iterator[Served]:
    """A studio over a folder, on a free port, in a thread."""
    studio = Studio(root, caches=root.parent / f"{root.name}-columns", **options)
    listener = bind(0)
    listener.listen()
    running = server(studio, listener)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.005)
    try:
        yield Served(studio, listener.getsockname()[1])
    finally:
        running.should_exit = True
        thread.join(10)
        studio.close()
        listener.close()
