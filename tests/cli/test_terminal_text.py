"""Text of servers: it must control neither the terminal nor the log."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nsq_anyio.cli.logs import set_up_logging
from nsq_anyio.terminal_text import one_line, visible

from .processes import run

EVIL = "\x1b]0;title\x07\x1b[2Jevil[/]\x9b\n"
SHOWN = r"\x1b]0;title\x07\x1b[2Jevil[/]\x9b"
PRODUCER = {
    "remote_address": "127.0.0.1:1",
    "hostname": EVIL,
    "broadcast_address": "127.0.0.1",
    "tcp_port": 1,
    "http_port": 2,
    "version": EVIL,
    "tombstones": [False],
    "topics": ["clicks"],
}


class _Nsqlookupd(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        paths = {"/nodes": {"producers": [PRODUCER]}, "/topics": {"topics": [EVIL]}}
        found = paths.get(self.path.partition("?")[0])
        body = json.dumps(found or {"message": EVIL}).encode()
        self.send_response(200 if found else 500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def hostile() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Nsqlookupd) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"--lookupd-http-address=127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_control_characters_are_escaped() -> None:
    assert visible(EVIL) == f"{SHOWN}\n"
    assert one_line(EVIL) == f"{SHOWN}\\n"
    assert visible("\u202eabc\ud800 é\t→") == "\\u202eabc\\ud800 é\t→"


@pytest.mark.parametrize("arguments", [("node", "list"), ("topic", "list"), ("channel", "list", "clicks")])
def test_nothing_of_a_server_reaches_the_terminal_s_controls(
    hostile: str, arguments: tuple[str, ...]
) -> None:
    done = run(*arguments, hostile)
    shown = (done.stdout + done.stderr).decode()
    assert "evil" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert "Traceback" not in shown


@pytest.mark.parametrize("format", ["text", "json"])
def test_nothing_of_a_server_forges_a_line_of_the_log(
    format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = logging.getLogger().handlers[:]
    try:
        set_up_logging("info", format)
        logging.getLogger("nsq_anyio.test").warning("it said: %s", EVIL)
    finally:
        logging.getLogger().handlers[:] = before
    log = capsys.readouterr().err
    assert log.count("\n") == 1
    assert not {"\x1b", "\x07", "\x9b"} & set(log)
