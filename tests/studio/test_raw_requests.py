"""Requests that no browser sends: other protocols, and such as two programs would read in two ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="needs starlette, of deepcanon[studio]")

from tests.studio.made import Served, served
from tests.studio.test_security import post_head, status_of


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("runs")) as found:
        yield found


@pytest.mark.parametrize(
    "lines",
    [
        "GET /api/runs HTTP/1.1\r\n{own}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "GET / HTTP/1.1\r\n{own}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        "HTTP2-Settings: AAMAAABk\r\n\r\n",
    ],
)
def test_no_other_protocol_is_spoken(studio: Served, lines: str) -> None:
    answer = studio.raw(lines.format(own=f"Host: 127.0.0.1:{studio.port}\r\n").encode())
    assert status_of(answer) in (200, 401)
    assert b"upgrade" not in answer.lower()


@pytest.mark.parametrize(
    "lines",
    [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\n{own}\r\n",
        "GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: 127.0.0.1:{port}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: evil.example\r\nForwarded: host=127.0.0.1:{port}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : 127.0.0.1:{port}\r\n\r\n",
        "GET / HTTP/1.1\r\n{own} evil.example\r\n\r\n",
        "GET /\0 HTTP/1.1\r\n{own}\r\n",
        "{post}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n{own}\r\n",
        "{post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}",
        "{post}Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        "{post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "{post}Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
    ],
)
def test_a_request_that_is_read_in_two_ways_is_refused(studio: Served, lines: str) -> None:
    own = f"Host: 127.0.0.1:{studio.port}\r\n"
    asked = lines.format(own=own, port=studio.port, post=post_head(studio)).encode("latin-1")
    answer = studio.raw(asked)
    assert 400 <= status_of(answer) < 500 or status_of(answer) == 501
    assert b"HTTP/1.1 200" not in answer
