"""The guard before every address: Host, Origin, method, token, size and time of a request, and the headers of answers.

The browser is the adversary's tool here: any page that the user visits can send requests to a loopback port. So a
request must name our own host (or a rebound DNS name would reach us), must not come from another site, and must carry
the token, which only the page that was opened by its printed address has. No route checks anything of this itself.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 2**20
"""The most bytes of the body of a request."""
SECONDS_TO_SEND = 30.0
"""How long a request may take to arrive."""

METHODS = ("GET", "POST")
SITES = ("same-origin", "none")
"""What a browser may say about where a request comes from: our page, or the address bar."""

PAGE_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "frame-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
TICKET_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
"""Of a page with scripts of its own: the sandbox gives it an origin of its own, so that it cannot reach the token."""

HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Refused(Exception):
    """A request that is not answered: the status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard:
    """The middleware: a request passes it whole and checked, or is refused with a sentence."""

    def __init__(self, app: ASGIApp, *, token: str, port: int, read_only: bool = False) -> None:
        self.app = app
        self.token = token
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.origins = {f"http://{host}" for host in self.hosts}
        self.read_only = read_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the studio speaks nothing but HTTP")
        guarded = _with_headers(send, framed=scope["path"].startswith("/ticket/"))
        try:
            self.check(scope)
            body = await _body(scope, receive)
        except Refused as refusal:
            await _refuse(guarded, refusal)
            return
        with suppress(asyncio.CancelledError):  # the server ends: nobody waits for this answer any more
            await self.app(scope, _replayed(body, receive), guarded)

    def check(self, scope: Scope) -> None:
        """Refuse a request by its method, its headers and its token."""
        headers = scope["headers"]
        if scope["method"] not in METHODS:
            raise Refused(405, "the studio knows GET and POST")
        if _one(headers, b"host") not in self.hosts:
            raise Refused(421, "this is not the host that the studio runs at: open the address that it has printed")
        origin = _one(headers, b"origin")
        if origin is not None and origin not in self.origins:
            raise Refused(403, "a page of another site asks: refused")
        site = _one(headers, b"sec-fetch-site")
        if site is not None and site not in SITES:
            raise Refused(403, "a page of another site asks: refused")
        if scope["method"] == "POST" and self.read_only:
            raise Refused(403, "this studio is read-only: start it without --read-only to change something")
        if scope["path"].startswith("/api/"):
            given = (_one(headers, b"authorization") or "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, f"Bearer {self.token}".encode()):
                raise Refused(401, "the token is missing or wrong: open the address that the studio has printed")
        elif scope["method"] == "POST":
            raise Refused(405, "nothing but /api/ takes a POST")
        if scope["method"] == "POST" and (_one(headers, b"content-type") or "").partition(";")[0] != "application/json":
            raise Refused(415, "the body of a POST is JSON")


def _one(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str | None:
    """The value of a header; one that is there twice is nobody's."""
    found = [value for key, value in headers if key == name]
    if len(found) > 1:
        raise Refused(400, f"the header {name.decode()} is there twice")
    return found[0].decode("latin-1") if found else None


async def _body(scope: Scope, receive: Receive) -> bytes:
    """All of a request's body, if it is small enough and comes soon enough."""
    most = MOST_BODY if scope["method"] == "POST" else 0
    said = _one(scope["headers"], b"content-length")
    if said is not None and _one(scope["headers"], b"transfer-encoding") is not None:
        raise Refused(400, "a body has a length or comes in chunks, not both")
    if said is not None and not (said.isascii() and said.isdigit() and len(said) < 12 and int(said) <= most):
        raise Refused(413, f"the body of a request has at most {most:,} bytes")
    body, more = bytearray(), True
    try:
        async with asyncio.timeout(SECONDS_TO_SEND):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "the client went away")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > most:
                    raise Refused(413, f"the body of a request has at most {most:,} bytes")
    except TimeoutError:
        raise Refused(408, "the request took too long to arrive") from None
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body that was read already, then what comes after it."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


def _with_headers(send: Send, *, framed: bool) -> Send:
    """A ``send`` that adds our headers to every answer, also to refusals."""
    ours: dict[str, Any] = dict(HEADERS)
    if framed:
        ours |= {"content-security-policy": TICKET_POLICY, "x-frame-options": "SAMEORIGIN"}
    added = [(name.encode(), value.encode()) for name, value in ours.items()]
    names = {name for name, _ in added}

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in names]
            message = {**message, "headers": [*kept, *added]}
        await send(message)

    return guarded


async def _refuse(send: Send, refusal: Refused) -> None:
    content = json.dumps({"error": str(refusal)}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        (b"connection", b"close"),  # the rest of a body that was not read must not be taken for a request
    ]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
