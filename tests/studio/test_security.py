"""Attacks on the studio: those that MLflow, Ray, Gradio and aim have had to mend, and a few more."""

from __future__ import annotations

import hmac
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("starlette", reason="needs starlette, of deepcanon[studio]")

from deepcanon.studio import security, server
from deepcanon.studio.app import PAGE
from tests.studio.made import Served, make_run, served, step

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">'\"&<script>alert(1)</script>"
"""A text that would run where somebody forgets to escape it."""

POSTS = ("/api/jobs", "/api/jobs/x/stop", "/api/runs/{id}/notes", "/api/runs/{id}/stop", "/api/runs/{id}/resume")


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("runs")
    make_run(root / "one", [step(1, 0.5), step(2, 0.25)])
    (root / "one" / "pictures").mkdir()
    (root / "one" / "pictures" / "curve.png").write_bytes(b"png")
    (root / "secret.txt").write_text("secret")
    (root / "one" / "pictures" / "link.png").symlink_to(root / "secret.txt")
    outside = tmp_path_factory.mktemp("elsewhere")
    make_run(outside / "other")
    (root / "way-out").symlink_to(outside)
    with served(root) as found:
        yield found


def run_id(studio: Served) -> str:
    (run,) = studio.get("/api/runs")["runs"]
    return str(run["id"])


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def post_head(studio: Served) -> str:
    """The beginning of a POST that is allowed."""
    own = f"Host: 127.0.0.1:{studio.port}\r\nAuthorization: Bearer {studio.studio.token}\r\n"
    return f"POST /api/jobs HTTP/1.1\r\n{own}Content-Type: application/json\r\n"


# DNS rebinding: a foreign name that resolves to 127.0.0.1 is a foreign host.
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil.example:{port}",
        "0.0.0.0:{port}",
        "127.0.0.1:{port}@evil.example",
        "127.0.0.1:{port}, evil.example",
        "[::ffff:127.0.0.1]:{port}",
        "2130706433:{port}",
        "",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/runs", "/ticket/x"])
def test_a_foreign_host_is_refused(studio: Served, host: str, path: str) -> None:
    named = host.format(port=studio.port)
    token = studio.studio.token
    answer = studio.raw(f"GET {path} HTTP/1.1\r\nHost: {named}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    assert status_of(answer) in (400, 421)
    assert b"secret" not in answer
    assert token.encode() not in answer


def test_a_request_without_a_host_or_with_two_is_refused(studio: Served) -> None:
    own = f"Host: 127.0.0.1:{studio.port}\r\n"
    assert status_of(studio.raw(b"GET / HTTP/1.1\r\n\r\n")) == 400
    assert status_of(studio.raw(f"GET / HTTP/1.1\r\n{own}Host: evil.example\r\n\r\n".encode())) == 400
    assert status_of(studio.raw(f"GET / HTTP/1.1\r\n{own}\r\n".encode())) == 200


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_our_own_names_are_answered(studio: Served, name: str) -> None:
    assert studio.ask("GET", "/", headers={"Host": f"{name}:{studio.port}"})[0] == 200


# Cross-site requests: of every method, whatever they carry.
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", "http://localhost"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_origin_is_refused(studio: Served, origin: str, method: str) -> None:
    body = {"what": "train"} if method == "POST" else None
    said = {"Origin": origin.format(port=studio.port)}
    status, headers, _ = studio.ask(method, "/api/jobs", body, said)
    assert status == 403
    assert not [name for name in headers if name.startswith("access-control")]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "strange"])
@pytest.mark.parametrize("path", ["/", "/app.js", "/api/runs"])
def test_a_browser_that_comes_from_elsewhere_is_refused(studio: Served, site: str, path: str) -> None:
    assert studio.ask("GET", path, headers={"Sec-Fetch-Site": site})[0] == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_of_another_site_can_send_is_refused(studio: Served, kind: str) -> None:
    assert studio.ask("POST", "/api/jobs", b"{}", {"Content-Type": kind})[0] == 415


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "HEAD", "TRACE", "CONNECT", "BREW"])
def test_only_get_and_post_are_known(studio: Served, method: str) -> None:
    assert studio.ask(method, "/api/runs")[0] == 405


# Traversal: there is no path to go up from, in no encoding.
UP = [
    "../",
    "..\\",
    "%2e%2e/",
    "%2e%2e%2f",
    "..%2f",
    "%252e%252e%252f",
    "..%5c",
    "%c0%ae%c0%ae/",
    "....//",
    "..;/",
    "%u002e%u002e/",
]


@pytest.mark.parametrize("up", UP)
@pytest.mark.parametrize(
    "base", ["/", "/views/", "/api/runs/", "/api/runs/{id}/pictures/", "/ticket/", "/api/catalogue/", "//", "/./"]
)
def test_no_path_leads_out(studio: Served, base: str, up: str) -> None:
    start = base.format(id=run_id(studio))
    for target in ("secret.txt", "etc/passwd", "run.json", "one/run.json"):
        for depth in (1, 3):
            status, _, body = studio.ask("GET", f"{start}{up * depth}{target}")
            assert status in (400, 404), (start, up, target)
            assert b"secret" not in body.replace(b"secret.txt", b"")
            assert b"root:" not in body


@pytest.mark.parametrize(
    "id", ["..", ".", "one", "/", "%00", "\x01", "0" * 16, "0" * 5000, "é", "run.json", "way-out/other"]
)
def test_only_ids_that_were_listed_are_known(studio: Served, id: str) -> None:
    assert studio.ask("GET", f"/api/runs/{quote(id, safe='')}")[0] == 404
    assert studio.ask("GET", f"/api/curves?runs={quote(id, safe='')}")[0] == 404


def test_links_that_leave_the_folder_are_not_followed(studio: Served) -> None:
    assert [run["name"] for run in studio.get("/api/runs")["runs"]] == ["one"]
    page = studio.get(f"/api/runs/{run_id(studio)}")
    assert page["pictures"] == ["curve.png"]
    assert studio.ask("GET", f"/api/runs/{run_id(studio)}/pictures/0")[2] == b"png"
    for number in ("1", "-1", "99999999999999999999", "0x0", "curve.png"):
        assert studio.ask("GET", f"/api/runs/{run_id(studio)}/pictures/{number}")[0] == 404


# The token.
def test_every_address_of_the_api_needs_the_token(studio: Served) -> None:
    token, id = studio.studio.token, run_id(studio)
    wrong = [
        None,
        "",
        token,
        f"bearer {token}",
        f"Bearer {token[:-1]}",
        f"Bearer {token}x",
        f"Bearer  {token}",
        "Bearer ",
        f"Basic {token}",
        f"Bearer {token.swapcase()}",
        "Bearer \xff\xfe",
    ]
    gets = [
        "/api/runs",
        "/api/studio",
        "/api/live",
        "/api/curves",
        f"/api/runs/{id}",
        "/api/catalogue",
        "/api/jobs",
        "/api/x",
    ]
    for path in gets:
        for given in wrong:
            status, _, body = studio.ask("GET", path, headers={"Authorization": given or ""})
            assert status == 401, (path, given)
            assert token.encode() not in body
    for path in POSTS:
        assert studio.ask("POST", path.format(id=id), {}, {"Authorization": ""})[0] == 401
    assert (
        studio.ask("GET", f"/api/runs?token={token}", headers={"Authorization": "", "Cookie": f"token={token}"})[0]
        == 401
    )


def test_the_token_is_long_random_and_compared_in_constant_time(
    studio: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as other:
        assert other.studio.token != studio.studio.token
    assert len(studio.studio.token) >= 43  # 256 bits, six in a letter
    compared, real = [], hmac.compare_digest

    def watched(a: bytes, b: bytes) -> bool:
        compared.append(a)
        return real(a, b)

    monkeypatch.setattr("deepcanon.studio.security.hmac.compare_digest", watched)
    assert studio.ask("GET", "/api/studio", headers={"Authorization": "Bearer guess"})[0] == 401
    assert compared == [b"Bearer guess"]


def test_the_page_itself_holds_no_secret(studio: Served) -> None:
    for path in sorted(PAGE.rglob("*")):
        if path.is_file() and path.name != "index.html":
            body = studio.ask("GET", f"/{path.relative_to(PAGE).as_posix()}", headers={"Authorization": ""})[2]
            assert body == path.read_bytes()
            assert studio.studio.token.encode() not in body


# Bodies.
def test_a_body_that_is_too_large_is_refused_before_it_is_read(studio: Served) -> None:
    head = post_head(studio)
    for length in (security.MOST_BODY + 1, 999_999_999_999):  # of which nothing is sent: the server may hang up sooner
        declared = studio.raw(f"{head}Content-Length: {length}\r\n\r\n".encode())
        assert status_of(declared) == 413
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    chunked = studio.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 20)
    assert status_of(chunked) in (413, 0)  # hung up while we were still sending
    assert studio.ask("GET", "/api/runs", b"{}")[0] == 413
    assert studio.ask("POST", "/api/jobs", b"{}", {"Content-Length": "-1"})[0] == 400


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"NaN", b"{}{}"]
)
@pytest.mark.parametrize("path", POSTS)
def test_a_malformed_body_is_a_sentence(studio: Served, path: str, body: bytes) -> None:
    status, _, answer = studio.ask("POST", path.format(id=run_id(studio)), body)
    assert status in (400, 404)
    assert set(json.loads(answer)) == {"error"}
    assert b"Traceback" not in answer


@pytest.mark.parametrize("asked", [{"model": "\ud800"}, {"model": "mlp", "data": "\ud800"}, {"what": "\ud800"}])
def test_half_a_letter_is_refused_in_a_sentence(studio: Served, asked: dict[str, str]) -> None:
    assert studio.post("/api/jobs", {"what": "train", **asked})[0] == 400
    assert studio.ask("GET", "/api/runs/%ED%A0%80")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {"tags": "x", "note": ""},
        {"tags": [1], "note": ""},
        {"tags": [], "note": 1},
        {"tags": ["x" * 41], "note": ""},
        {"tags": [str(n) for n in range(21)], "note": ""},
        {"tags": [], "note": "x" * 10_001},
        {},
    ],
)
def test_notes_are_bounded_in_size_and_kind(studio: Served, body: object) -> None:
    assert studio.post(f"/api/runs/{run_id(studio)}/notes", body)[0] == 400


@pytest.mark.parametrize(
    "query",
    ["width=0", "width=99999", "width=x", "from=nan", "to=1e99", "from=", "against=run.json", "width=1e9&from=inf"],
)
def test_a_query_out_of_bounds_is_a_sentence(studio: Served, query: str) -> None:
    status, _, body = studio.ask("GET", f"/api/curves?runs={run_id(studio)}&{query}")
    assert status == 400
    assert set(json.loads(body)) == {"error"}


def test_headers_without_end_are_refused(studio: Served) -> None:
    assert status_of(studio.raw(b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n")) in (400, 431, 0)
    assert studio.ask("GET", "/")[0] == 200


# Slow clients.
def test_a_client_that_sends_its_headers_slowly_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SECONDS_TO_SEND", 0.3)
    with served(tmp_path) as studio, socket.create_connection(("127.0.0.1", studio.port), timeout=10) as line:
        began = time.monotonic()
        try:
            while time.monotonic() - began < 30:
                line.sendall(b"G")  # one byte at a time does not buy more time
                time.sleep(0.05)
                line.setblocking(False)
                try:
                    if line.recv(100) == b"":
                        break
                except BlockingIOError:
                    line.setblocking(True)
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert time.monotonic() - began < 30
        assert studio.ask("GET", "/")[0] == 200


def test_a_client_that_sends_its_body_slowly_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "SECONDS_TO_SEND", 0.3)
    with served(tmp_path) as studio:
        head = f"{post_head(studio)}Content-Length: 100\r\n\r\n{{"
        assert status_of(studio.raw(head.encode())) == 408


def test_many_idle_connections_do_not_keep_the_page_from_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SECONDS_TO_SEND", 0.5)
    with served(tmp_path) as studio:
        idle = [socket.create_connection(("127.0.0.1", studio.port)) for _ in range(server.MOST_CONNECTIONS + 5)]
        deadline = time.monotonic() + 10
        while (status := studio.ask("GET", "/")[0]) != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        for line in idle:
            line.close()
        assert status == 200


# Script, framing and headers.
def test_every_answer_has_the_headers(studio: Served) -> None:
    for method, path, said in (
        ("GET", "/", {}),
        ("GET", "/api/runs", {}),
        ("GET", "/nothing", {}),
        ("GET", "/", {"Host": "evil"}),
        ("PUT", "/", {}),
    ):
        _, headers, _ = studio.ask(method, path, headers=said)
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_a_page_with_scripts_of_its_own_is_shown_once_and_in_a_sandbox(
    studio: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = studio.studio.ticket("<script>1</script>")
    status, headers, body = studio.ask("GET", address, headers={"Authorization": ""})
    assert (status, body) == (200, b"<script>1</script>")
    assert headers["content-security-policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in headers["content-security-policy"]
    assert "connect-src" not in headers["content-security-policy"]  # so default-src 'none' holds: it can tell nobody
    assert studio.ask("GET", address)[0] == 404
    monkeypatch.setattr("deepcanon.studio.studio.TICKET_SECONDS", -1.0)
    assert studio.ask("GET", studio.studio.ticket("x"))[0] == 404


def test_the_page_has_no_inline_script_or_style_and_reads_no_html() -> None:
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|<style|style=|\son\w+=|javascript:", page)
    banned = re.compile(
        r"innerHTML|outerHTML\s*=|insertAdjacentHTML|document\.write|\beval\(|new Function|setTimeout\(['\"]|DOMParser|srcdoc|createContextualFragment|https?://(?!www\.w3\.org|127\.0\.0\.1)"
    )
    for script in PAGE.rglob("*.js"):
        assert banned.search(script.read_text("utf-8")) is None, script


def test_hostile_names_come_as_json_and_nothing_else(tmp_path: Path) -> None:
    plain = HOSTILE.replace("/", "")  # what no name of a folder can hold
    root = tmp_path / "runs"
    run = make_run(
        root / plain,
        [step(1, 0.5, terms={HOSTILE: 1.0})],
        model={"model": HOSTILE, "arguments": {HOSTILE: HOSTILE}},
        settings={HOSTILE: HOSTILE},
    )
    (run / "pictures").mkdir()
    (run / "pictures" / f"{plain}.png").write_bytes(b"png")
    (root / f"{plain}.csv").write_text("a\n1\n")
    with served(root, files={f"{plain}.csv": root / f"{plain}.csv"}) as studio:
        id = run_id(studio)
        assert studio.post(f"/api/runs/{id}/notes", {"tags": [HOSTILE[:40]], "note": HOSTILE})[0] == 200
        for path in ("/api/runs", f"/api/runs/{id}", "/api/catalogue"):
            status, headers, body = studio.ask("GET", path)
            assert status == 200
            assert headers["content-type"] == "application/json"
            assert plain in json.dumps(json.loads(body)).replace('\\"', '"')
        assert studio.get(f"/api/runs/{id}")["note"] == HOSTILE
        status, _, body = studio.ask("GET", f"/api/catalogue/{quote(plain)}")
        assert status == 400


# Read-only, and what may be started.
def test_a_read_only_studio_takes_no_post(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "one")
    with served(tmp_path / "runs", read_only=True) as studio:
        for path in POSTS:
            assert studio.post(path.format(id=run_id(studio)), {})[0] == 403
        assert studio.get("/api/studio")["read_only"] is True


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "os:system"},
        {"model": "evil.py:Net"},
        {"model": "../evil"},
        {"model": "--help"},
        {"model": 1},
        {"model": None},
        {"model": "bagging", "arguments": {"model": "evil.py:Net"}},
        {"model": "bagging", "arguments": {"model": "run:../x"}},
        {"model": "bagging", "arguments": {"model": "bagging", "model.model": "evil.py:Net"}},
        {"model": "mlp", "arguments": {"out": "elsewhere"}},
        {"model": "mlp", "arguments": {"class": "evil.py:Net"}},
        {"model": "mlp", "arguments": {"x --out": "1"}},
        {"model": "mlp", "arguments": {"hidden": "64\n--out=x"}},
        {"model": "mlp", "arguments": {"hidden": ["64"]}},
        {"model": "mlp", "settings": {"out": "x"}},
        {"model": "mlp", "settings": {"epochs": "many"}},
        {"model": "mlp", "data": "secret.txt"},
        {"model": "mlp", "data": "../x.csv"},
        {"model": "mlp", "data": "digits:../../x"},
        {"model": "mlp", "data": "file:///etc/passwd"},
        {"model": "mlp", "data": ["digits"]},
        {"model": "mlp", "reading": {"nodes": "/etc/passwd"}},
        {"model": "mlp", "folder": "../x"},
        {"model": "mlp", "folder": "/x"},
        {"model": "mlp", "folder": ".hidden"},
        {"model": "mlp", "folder": "a/b"},
        {"what": "compare", "models": ["evil.py:Net"], "data": "moons"},
        {"what": "compare", "models": ["bagging:model=evil.py:Net"], "data": "moons"},
        {"what": "compare", "models": ["--out=x"], "data": "moons"},
        {"what": "compare", "models": ["mlp"], "data": "moons", "options": {"out": "x"}},
        {"what": "compare", "models": "mlp", "data": "moons"},
        {"what": "exec"},
        {"what": "resume"},
    ],
)
def test_only_names_of_the_catalogue_and_its_options_can_be_started(
    studio: Served, asked: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr("deepcanon.studio.jobs.subprocess.Popen", lambda *words, **_: started.append(words))
    status, answer = studio.post("/api/jobs", {"what": "train", **asked})
    assert status in (400, 404)
    assert set(answer) == {"error"}
    assert started == []
