"""Sessions of the playground, each in a process of its own: a training cannot slow, crash or fill the server.

Processes are forked from one that has imported torch and the catalogue, so that a session begins at once. Commands and
messages are JSON on a pipe. Of frames only the latest is kept: who reads slowly loses frames, never their order.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import secrets
import threading
from collections.abc import AsyncIterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from deepcanon.core.errors import UsageError
from deepcanon.studio.unknown import UnknownId

MOST_SESSIONS = 4
MOST_POINTS = 2000
MOST_KNOWN = 64
"""Of how many kinds of points the models are remembered."""
PATIENCE = 600.0
"""Seconds after which a process hangs, however busy the machine is; one that has died is known at once."""
ALIVE = 10.0
"""Seconds after which a stream says that it is alive."""
POLL = 0.02

METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"


class Session:
    """A session in its process: commands go in by ``ask``, and ``frames`` gives what the page shows."""

    def __init__(self, wanted: Any, files: Mapping[str, Path]) -> None:
        context: Any = multiprocessing.get_context(METHOD)
        if METHOD == "forkserver":
            context.set_forkserver_preload(["deepcanon.studio.play.workshop"])
        self.id = secrets.token_hex(8)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, json.dumps(wanted), {k: str(v) for k, v in files.items()}), daemon=True
        )
        self.process.start()
        theirs.close()
        self.changed = threading.Condition()
        self.scene: dict[str, Any] | None = None
        self.frame: dict[str, Any] = {}
        self.count = 0
        """How many frames have come."""
        self.curve: list[list[float]] = []
        self.valid: dict[str, Any] = {}
        self.answers: dict[int, dict[str, Any]] = {}
        self.refusal = ""
        self.over = False
        self.readers = 0
        """How many streams show this session; without one it rests."""
        self._asked = 0
        self._sending = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def begun(self) -> dict[str, Any]:
        """What the page must know of the session, as soon as it has begun; an error where it cannot."""
        with self.changed:
            self.changed.wait_for(lambda: self.scene is not None or self.over, PATIENCE)
        if self.scene is None:
            died = "the session has died before it began: the studio's terminal says why"
            said = self.refusal or (died if self.over else "the session did not begin in time")
            self.end()
            raise UsageError(said)
        return self.scene

    def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a command, or its error."""
        with self._sending:
            self._asked += 1
            number = self._asked
            try:
                self.pipe.send_bytes(json.dumps({**command, "number": number}).encode())
            except OSError:
                raise UsageError(self.refusal or "this session is over: begin anew") from None
        with self.changed:
            self.changed.wait_for(lambda: number in self.answers or self.over, PATIENCE)
            answer = self.answers.pop(number, None)
        if answer is None:
            raise UsageError(self.refusal or "this session does not answer: end it, and begin anew")
        if "error" in answer:
            raise UsageError(answer["error"])
        return answer

    async def frames(self) -> AsyncIterator[dict[str, Any]]:
        """The latest frame, again and again, each with what the curves have gained since the last one that was sent."""
        sent, points = 0, 0
        self.readers += 1
        if self.readers == 1:
            self._tell("wake")
        try:
            async for frame in self._news(sent, points):
                yield frame
        finally:
            self.readers -= 1
            if self.readers == 0:
                self._tell("rest")

    def _tell(self, what: str) -> None:
        """Tell the process something that needs no answer."""
        with contextlib.suppress(OSError), self._sending:
            self.pipe.send_bytes(json.dumps({"do": what}).encode())

    async def _news(self, sent: int, points: int) -> AsyncIterator[dict[str, Any]]:
        while True:
            waited = 0.0
            while self.count == sent and not self.over:
                await asyncio.sleep(POLL)
                waited += POLL
                if waited > ALIVE:
                    waited = 0.0
                    yield {}
            with self.changed:
                sent, frame, curve = self.count, self.frame, self.curve[points:]
                points = len(self.curve)
                valid = dict(self.valid)
            if self.over:
                yield {"kind": "over", "says": self.refusal}
                return
            yield {**frame, "curve": curve, "valid": valid}

    def end(self) -> None:
        """End the process, whatever it does."""
        self.over = True
        self.process.kill()
        self.process.join(PATIENCE)
        self.pipe.close()

    def _read(self) -> None:
        try:
            while True:
                message = json.loads(self.pipe.recv_bytes())
                with self.changed:
                    self._take(message)
                    self.changed.notify_all()
        except (EOFError, OSError):
            with self.changed:
                self.over = True
                self.changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "frame":
            self.frame, self.count = message, self.count + 1
            self.curve += message["curve"]
            self.valid = message["valid"] or self.valid
        elif kind == "scene":
            self.scene = message
        elif kind == "answer" and message["to"] is not None:
            self.answers[message["to"]] = message
        elif kind == "failed":
            self.refusal = message["says"]


class Sessions:
    """The sessions of a studio, at most a few: the one that began first makes room for another."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files
        self._sessions: dict[str, Session] = {}
        self._known: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._choosing = threading.Lock()

    def begin(self, wanted: Any) -> Session:
        with self._lock:
            while len(self._sessions) >= MOST_SESSIONS:
                self._sessions.pop(next(iter(self._sessions))).end()
            session = Session({"play": wanted}, self.files)
            self._sessions[session.id] = session
        try:
            session.begun()
        except UsageError:
            self._sessions.pop(session.id, None)
            raise
        return session

    def find(self, id: str) -> Session:
        try:
            return self._sessions[id]
        except KeyError:
            raise UnknownId(f"there is no session {id[:40]!r} here: begin one") from None

    def end(self, id: str) -> None:
        session = self.find(id)
        with self._lock:
            self._sessions.pop(id, None)
        session.end()

    def close(self) -> None:
        """End all sessions."""
        for id in list(self._sessions):
            self.end(id)

    def choices(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The points, the models for these, and the form of one; models are listed once for each kind of points."""
        kind = _kind_of(wanted.get("data"))
        with self._choosing:
            session = Session({"choices": {**wanted, "models": self._known.get(kind)}}, self.files)
            found: dict[str, Any] = session.begun()["choices"]
            session.end()
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[kind] = found["models"]
        return found


def _kind_of(data: Any) -> str:
    """What the models for these points depend on: of drawn ones, how many classes there are and whether labels stay."""
    if isinstance(data, Mapping) and isinstance(data.get("points"), list):
        classes = {str(point[2:]) for point in data["points"][:MOST_POINTS] if isinstance(point, list)}
        return f"drawn {len(classes)} {data.get('labels') is not None}"
    return json.dumps(data, sort_keys=True)


class Pipe:
    """The line of a session to the server that has begun it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def receive(self, seconds: float | None) -> Mapping[str, Any] | None:
        if not self.connection.poll(seconds):
            return None
        command: Mapping[str, Any] = json.loads(self.connection.recv_bytes())
        return command

    def send(self, message: Mapping[str, Any]) -> None:
        self.connection.send_bytes(json.dumps(message).encode())


def _serve(connection: Connection, wanted: str, files: Mapping[str, str]) -> None:
    """What the process of a session runs."""
    from deepcanon.studio.play.workshop import serve

    serve(Pipe(connection), json.loads(wanted), {name: Path(path) for name, path in files.items()})
