"""URLs: what is taken, what is shown, and that secrets are not."""

import base64

import pytest

from nsq_anyio.errors import InvalidAddress
from nsq_anyio.http.url import ServerURL


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:4161", "http://127.0.0.1:4161"),
        ("http://127.0.0.1:4161/", "http://127.0.0.1:4161"),
        ("HTTP://nsq.example:4161", "http://nsq.example:4161"),
        ("https://nsq.example", "https://nsq.example"),
        ("https://nsq.example/behind/proxy/", "https://nsq.example/behind/proxy"),
        ("127.0.0.1:4161", "http://127.0.0.1:4161"),
        ("nsq_1:4161", "http://nsq_1:4161"),
        ("[::1]:4161", "http://[::1]:4161"),
        ("http://[::1]:4161", "http://[::1]:4161"),
    ],
)
def test_is_taken(text: str, shown: str) -> None:
    url = ServerURL.parse(text)
    assert url.shown == shown
    assert url.is_https == shown.startswith("https")
    assert url.endpoint("/ping", {}) == (f"{shown}/ping", f"{shown}/ping")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "localhost:",
        ":4161",
        "localhost:0",
        "localhost:65536",
        "localhost:-1",
        "localhost:http",
        "localhost:4161/lookup",
        "localhost:4161?a=b",
        "::1:4161",
        "http://",
        "http:///lookup",
        "http://localhost:x",
        "http://localhost:99999",
        "http://localhost:0",
        "ftp://localhost:4161",
        "tcp://localhost:4150",
        "http://local host:4161",
        "http://localhost:4161\r\nX: y",
        "http://localhost:4161/\x00",
        "http://localhost:4161/#fragment",
        "http://[::1:4161",
        "http://a..b:4161",
        f"http://{'a' * 64}:4161",
        f"http://localhost:4161/{'a' * 70_000}",
    ],
)
def test_is_refused_with_its_value_and_the_remedy(text: str) -> None:
    with pytest.raises(InvalidAddress, match="use 'http://host:port'") as caught:
        ServerURL.parse(text)
    assert repr(text.partition("?")[0].partition("#")[0])[:-1] in str(caught.value)


@pytest.mark.parametrize("value", [None, 4161, b"http://user:secret@localhost:4161", ["localhost:4161"]])
def test_no_string_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(InvalidAddress, match=f"type {type(value).__name__}") as caught:
        ServerURL.parse(value)  # type: ignore[arg-type]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["/run/nsqd/http.sock", "unix:/run/nsqd/http.sock"])
def test_a_unix_socket(text: str) -> None:
    url = ServerURL.parse(text)
    assert (url.socket, url.shown, url.is_https) == ("/run/nsqd/http.sock", "unix:/run/nsqd/http.sock", False)
    assert url.endpoint("/stats", {"topic": "t"}) == (
        "http://localhost/stats?topic=t",
        "unix:/run/nsqd/http.sock:/stats?topic=t",
    )
    assert ServerURL.parse(url.shown) == url


def test_a_suffix_of_a_socket_is_no_endpoint() -> None:
    url = ServerURL.parse("/run/lookup").without_suffix("/lookup")
    assert url.socket == "/run/lookup"
    assert url.shown == "unix:/run/lookup"


@pytest.mark.parametrize("text", ["/run/a\nb", "unix:/run/\0", "unix:run/nsqd.sock", "unix:"])
def test_a_bad_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidAddress):
        ServerURL.parse(text)


def test_a_host_may_be_called_unix() -> None:
    assert ServerURL.parse("unix:4161").shown == "http://unix:4161"


def test_the_path_and_the_query_are_kept() -> None:
    url = ServerURL.parse("https://proxy.example/nsq?team=a%20b&x=1")
    requested, shown = url.endpoint("/lookup", {"topic": "t#ephemeral"})
    assert requested == "https://proxy.example/nsq/lookup?team=a%20b&x=1&topic=t%23ephemeral"
    assert shown == "https://proxy.example/nsq/lookup?topic=t%23ephemeral"


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("http://user:pass@localhost:4161", b"user:pass"),
        ("http://user@localhost:4161", b"user:"),
        ("http://:pass@localhost:4161", b":pass"),
        ("http://u%40x:p%2Fss%3A@localhost:4161", b"u@x:p/ss:"),
        ("http://user:p@ss@localhost:4161", b"user:p@ss"),
    ],
)
def test_the_credentials_become_a_header(text: str, pair: bytes) -> None:
    url = ServerURL.parse(text)
    assert url.authorization == f"Basic {base64.b64encode(pair).decode()}"
    assert url.endpoint("/ping", {})[0] == "http://localhost:4161/ping"


@pytest.mark.parametrize(
    "text",
    [
        "http://user:secret@localhost:4161",
        "http://user:secret@localhost:4161/?token=secret",
        "http://localhost:4161/?token=secret",
    ],
)
def test_secrets_are_not_shown(text: str) -> None:
    url = ServerURL.parse(text)
    assert "secret" not in repr(url) + url.endpoint("/lookup", {"topic": "t"})[1]
    assert "c2VjcmV0" not in repr(url)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://user:secret@localhost:4161",
        "http://user:secret@localhost:x",
        "http://user:secret@",
        "http://user:sec#secret@localhost:4161",
        "http://user:12?secret@localhost:4161",
        "http://user:12/secret@localhost:4161",
        "http://user:secret\n@localhost:4161",
        "user:secret@localhost:4161",
        "http://localhost:x/?token=secret",
        "http://localhost:x/#secret",
        "secret@",
    ],
)
def test_secrets_of_a_malformed_url_are_not_shown(text: str) -> None:
    with pytest.raises(InvalidAddress) as caught:
        ServerURL.parse(text)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
