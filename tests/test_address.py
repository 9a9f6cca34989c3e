import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.address import Address, UnixAddress, addresses, nsqd_addresses
from nsq_anyio.admin.api.nsqds import KnownNsqd
from nsq_anyio.errors import InvalidAddress
from nsq_anyio.http import Node, NsqdInfo, Producer
from nsq_anyio.http.models import unite


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:4150", "127.0.0.1", 4150),
        ("localhost:1", "localhost", 1),
        ("nsqd-1.example.org:65535", "nsqd-1.example.org", 65535),
        ("[::1]:4150", "::1", 4150),
        ("[fe80::1%eth0]:4150", "fe80::1%eth0", 4150),
        ("bücher.example:4150", "bücher.example", 4150),
        ("x" * 255 + ":4150", "x" * 255, 4150),
    ],
)
def test_parse(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert address == Address(host, port)
    assert str(address) == text


def test_a_port_is_a_number_not_its_spelling() -> None:
    assert str(Address.parse("h:04150")) == "h:4150"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no valid port"),
        ("localhost", "has no valid port"),
        ("localhost:", "has no valid port"),
        ("localhost:nsq", "has no valid port"),
        ("localhost:-1", "has no valid port"),
        ("localhost:+1", "has no valid port"),
        ("localhost: 1", "has no valid port"),
        ("localhost:4150\n", "has no valid port"),
        ("localhost:4_150", "has no valid port"),
        ("localhost:٤١٥٠", "has no valid port"),
        ("localhost:123456", "has no valid port"),
        ("localhost:" + "9" * 5000, "has no valid port"),  # int() refuses so many digits in its own way
        ("localhost:0", "port 0 of 'localhost' is not valid: use 1 to 65535"),
        ("localhost:65536", "port 65536 of 'localhost' is not valid: use 1 to 65535"),
        (":4150", "host '' is not valid"),
        ("[]:4150", "host '' is not valid"),
        ("a b:4150", "host 'a b' is not valid"),
        ("a\x00b:4150", r"host 'a\x00b' is not valid"),
        ("a\u00a0b:4150", r"host 'a\xa0b' is not valid"),
        ("a/b:4150", "host 'a/b' is not valid"),
        ("user@host:4150", "host 'user@host' is not valid"),
        ("[[::1]]:4150", "host '[::1]' is not valid"),
        ("x" * 256 + ":4150", "is not valid: use a host name or an IP address"),
        ("::1:4150", "put an IPv6 literal in brackets"),
        ("[::1:4150", "put an IPv6 literal in brackets"),
        ("http://127.0.0.1:4151", "is a URL: use nsqd's TCP address"),
        ("tcp://127.0.0.1:4150", "is a URL"),
    ],
)
def test_refused(text: str, complaint: str) -> None:
    with pytest.raises(InvalidAddress) as caught:
        Address.parse(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("text", [None, 4150, b"localhost:4150", ("localhost", 4150)])
def test_not_a_string(text: Any) -> None:
    with pytest.raises(InvalidAddress, match="is not a string: use 'host:port'"):
        Address.parse(text)


@pytest.mark.parametrize("host", [None, 1, b"localhost", ["localhost"]])
def test_the_host_must_be_a_string(host: Any) -> None:
    with pytest.raises(InvalidAddress, match=r"^host .* is not valid"):
        Address(host, 4150)


@pytest.mark.parametrize("port", [None, "4150", 4150.0, True, -1, 10**30])
def test_the_port_must_be_an_integer_in_range(port: Any) -> None:
    with pytest.raises(InvalidAddress, match=r"^port .* of 'localhost' is not valid: use 1 to 65535"):
        Address("localhost", port)


def test_addresses_are_keys() -> None:
    assert len({Address("a", 1), Address("a", 1), Address("a", 2), Address("b", 1)}) == 3
    assert min(Address("b", 1), Address("a", 2), Address("a", 1)) == Address("a", 1)


def test_one_or_many() -> None:
    assert addresses("a:1") == (Address("a", 1),)
    assert addresses(["b:1", "a:1", "b:1", "a:2"]) == (Address("b", 1), Address("a", 1), Address("a", 2))


@pytest.mark.parametrize("value", [[], ()])
def test_none_at_all(value: list[str]) -> None:
    with pytest.raises(InvalidAddress, match="name at least one 'host:port'"):
        addresses(value)


def test_one_bad_among_many() -> None:
    with pytest.raises(InvalidAddress, match="'b' has no valid port"):
        addresses(["a:1", "b"])


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        address = Address.parse(text)
    except InvalidAddress:
        return
    assert Address.parse(str(address)) == address


@given(
    st.text(st.characters(exclude_characters=" /[]@", exclude_categories=["C", "Z"]), min_size=1),
    st.integers(1, 65535),
)
def test_round_trip(host: str, port: int) -> None:
    if "://" not in host and len(host) <= 255:
        address = Address(host, port)
        assert Address.parse(str(address)) == address


def test_an_nsqd_may_listen_on_a_unix_socket() -> None:
    found = nsqd_addresses(["/run/nsqd.sock", "127.0.0.1:4150", "/run/nsqd.sock"])
    assert found == (UnixAddress("/run/nsqd.sock"), Address("127.0.0.1", 4150))
    assert [str(address) for address in found] == ["/run/nsqd.sock", "127.0.0.1:4150"]


@pytest.mark.parametrize("path", ["run/nsqd.sock", "", "/run/nsqd\n.sock"])
def test_a_path_is_absolute_and_printable(path: str) -> None:
    with pytest.raises(InvalidAddress, match=rf"path {re.escape(repr(path))} is not valid: use a socket's"):
        UnixAddress(path)


@pytest.mark.parametrize("value", ["nowhere", "./nsqd.sock", [], [4150]])
def test_what_is_neither_is_refused(value: Any) -> None:
    with pytest.raises(InvalidAddress):
        nsqd_addresses(value)


@pytest.mark.parametrize(
    ("host", "text"),
    [("nsqd-1", "nsqd-1:4151"), ("10.0.0.1", "10.0.0.1:4151"), ("fd00::1", "[fd00::1]:4151")],
)
def test_a_node_has_one_name(host: str, text: str) -> None:
    """In the cluster's statistics, in nsqadmin's API, and as a key."""
    producer = Producer(broadcast_address=host, tcp_port=4150, http_port=4151)
    node = Node.registered(producer, "http://lookup:4161")
    assert node.name == text
    assert KnownNsqd.registered(producer, "http://lookup:4161").name == text
    assert node.url == f"http://{text}"
    assert str(Address(host, 4151)) == text
    asked = Node.asked(node.url, NsqdInfo(broadcast_address=host, tcp_port=4150, http_port=4151), ())
    assert [each.name for each in unite([asked, node])] == [text]
