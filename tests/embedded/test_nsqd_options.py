"""Options of the embedded nsqd for TLS, compression and AUTH: what is refused, and when."""

import ssl
from pathlib import Path
from typing import Any

import anyio
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.errors import InvalidOption
from tests.embedded.raw_client import raw_client
from tests.tls_files import TLSFiles

pytestmark = pytest.mark.anyio

BOTH = {"tls_cert": "cert.pem", "tls_key": "key.pem"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tls_cert": "cert.pem"}, "tls_cert='cert.pem' with tls_key=None is not valid: set both or none"),
        ({"tls_key": "key.pem"}, "tls_cert=None with tls_key='key.pem' is not valid: set both or none"),
        ({"tls_cert": "", "tls_key": ""}, "tls_cert='' is not valid: use the path of a PEM file"),
        ({**BOTH, "tls_root_ca_file": 5}, "tls_root_ca_file=5 is not valid: use the path"),
        ({"tls_required": True}, "tls_required=True .*: set tls_cert and tls_key as well"),
        ({"tls_required": "tcp-https"}, "tls_required='tcp-https' .*: set tls_cert and tls_key as well"),
        ({**BOTH, "tls_required": "tcp"}, "tls_required='tcp' is not valid: use True, False or 'tcp-https'"),
        ({**BOTH, "tls_required": 1}, "tls_required=1 is not valid"),
        (
            {"tls_client_auth_policy": "require-verify"},
            "tls_client_auth_policy='require-verify' requires TLS of clients: set tls_cert",
        ),
        (
            {**BOTH, "tls_client_auth_policy": "verify"},
            "tls_client_auth_policy='verify' is not valid: use one of None, 'require', 'require-verify'",
        ),
        ({**BOTH, "tls_client_auth_policy": "require"}, "'require' needs tls_root_ca_file"),
        (
            {**BOTH, "tls_min_version": "ssl3.0"},
            "tls_min_version='ssl3.0' is not valid: use 'tls1.0', 'tls1.1', 'tls1.2' or 'tls1.3'",
        ),
        ({"snappy": 1}, "snappy=1 is not valid: use True or False"),
        ({"deflate": None}, "deflate=None is not valid: use True or False"),
        ({"max_deflate_level": 10}, "max_deflate_level=10 is not valid"),
        ({"auth": "secret"}, "auth='secret' is not valid: use a function"),
        ({"auth_http_addresses": "127.0.0.1:1"}, "auth_http_addresses is a string: use a sequence"),
        ({"auth_http_addresses": ["here"]}, "'here'"),
        ({"auth_http_addresses": ["ftp://here:1"]}, "neither http nor https"),
        ({"auth_http_addresses": [5]}, "int is not valid"),
        (
            {"auth_http_addresses": ["127.0.0.1:1"], "auth": print},
            "auth and auth_http_addresses exclude each other: use one of them",
        ),
        ({"http_client_connect_timeout": 0}, "http_client_connect_timeout=0 is not valid"),
        ({"http_client_request_timeout": -1}, "http_client_request_timeout=-1 is not valid"),
        (
            {"e2e_processing_latency_percentiles": [0.5, 0.0]},
            r"_percentiles=\[0.5, 0.0\] is not valid: use a sequence of numbers above 0, at most 1",
        ),
        ({"e2e_processing_latency_percentiles": [1.01]}, "_percentiles=.* is not valid"),
        ({"e2e_processing_latency_percentiles": "0.5"}, "_percentiles='0.5' is not valid"),
        ({"e2e_processing_latency_percentiles": 0.5}, "_percentiles=0.5 is not valid"),
        ({"e2e_processing_latency_window_time": 0}, "_window_time=0 is not valid"),
        ({"statsd_address": "localhost"}, "statsd_address='localhost' is not valid: use host:port, or None"),
        ({"statsd_address": ""}, "statsd_address='' is not valid"),
        ({"statsd_interval": 0}, "statsd_interval=0 is not valid"),
        ({"statsd_udp_packet_size": 0}, "statsd_udp_packet_size=0 is not valid"),
        ({"statsd_prefix": None}, "statsd_prefix=None is not valid"),
        ({"statsd_mem_stats": "no"}, "statsd_mem_stats='no' is not valid"),
    ],
)
def test_bad_options_are_refused_when_made(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=text):
        NsqdOptions(**options)


def test_passwords_of_auth_servers_do_not_show() -> None:
    assert "hidden" not in repr(NsqdOptions(auth_http_addresses=["http://user:hidden@127.0.0.1:1/auth"]))
    with pytest.raises(InvalidOption) as caught:
        NsqdOptions(auth_http_addresses=["ftp://user:hidden@127.0.0.1:1/auth"])
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "required"),
    [
        ({}, False),
        (BOTH, False),
        ({**BOTH, "tls_required": True}, True),
        ({**BOTH, "tls_required": "tcp-https"}, "tcp-https"),
        ({**BOTH, "tls_client_auth_policy": "require-verify"}, True),
        ({**BOTH, "tls_client_auth_policy": "require-verify", "tls_required": "tcp-https"}, "tcp-https"),
    ],
)
def test_a_policy_implies_that_tls_is_required(options: dict[str, Any], required: object) -> None:
    assert NsqdOptions(**options).requires_tls == required


async def start(**options: Any) -> None:
    async with embedded.nsqd(options=NsqdOptions(**options)):
        pass


async def test_files_that_cannot_be_used_are_refused_at_the_start(
    tls_files: TLSFiles, tmp_path: Path
) -> None:
    server = tls_files.server
    good = {"tls_cert": server.certificate_file, "tls_key": server.private_key_file}
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    for options in (
        {"tls_cert": junk},
        {"tls_key": tmp_path / "none.pem"},
        {"tls_key": tls_files.client.private_key_file},
        {
            "tls_cert": tls_files.encrypted_client.certificate_file,
            "tls_key": tls_files.encrypted_client.private_key_file,
        },
    ):
        with pytest.raises(InvalidOption, match=r"tls_cert=.*, tls_key=.* cannot be used \(.+\): use PEM"):
            await start(**{**good, **options})
    for path in (junk, tmp_path / "none.pem"):
        for more in ({}, {"tls_client_auth_policy": "require-verify"}):
            with pytest.raises(InvalidOption, match=r"tls_root_ca_file=.* cannot be used \(.+\): use a PEM"):
                await start(**good, **more, tls_root_ca_file=path)
        with pytest.raises(InvalidOption, match=r"tls_root_ca_file=.* cannot be used \(.+\): use a PEM"):
            await start(auth_http_addresses=["127.0.0.1:1"], tls_root_ca_file=path)
    await start(**good, tls_root_ca_file=tls_files.ca_file, tls_client_auth_policy="require")


def client_context(files: TLSFiles, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca_file)
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize(
    ("oldest", "spoken"),
    [
        ("tls1.0", {ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3}),
        ("tls1.2", {ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3}),
        ("tls1.3", {ssl.TLSVersion.TLSv1_3}),
    ],
)
async def test_older_versions_are_refused(
    tls_files: TLSFiles, oldest: str, spoken: set[ssl.TLSVersion]
) -> None:
    server = tls_files.server
    options: dict[str, Any] = {"tls_min_version": oldest}
    made = NsqdOptions(tls_cert=server.certificate_file, tls_key=server.private_key_file, **options)
    async with embedded.nsqd(options=made) as nsqd:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            async with raw_client(nsqd.tcp_address) as client:
                if version in spoken:
                    await client.negotiate({"tls_v1": True}, client_context(tls_files, version))
                    await client.publish("t", b"x")
                else:
                    with pytest.raises(ssl.SSLError, match=r"PROTOCOL_VERSION|protocol version"):
                        await client.negotiate({"tls_v1": True}, client_context(tls_files, version))


@pytest.mark.parametrize("policy", ["require", "require-verify"])
async def test_policies_for_client_certificates(tls_files: TLSFiles, policy: str) -> None:
    server = tls_files.server
    options: dict[str, Any] = {"tls_client_auth_policy": policy}
    made = NsqdOptions(
        tls_cert=Path(server.certificate_file),
        tls_key=Path(server.private_key_file),
        tls_root_ca_file=Path(tls_files.ca_file),
        **options,
    )
    async with embedded.nsqd(options=made) as nsqd:
        for pair in (None, tls_files.stranger, tls_files.client):
            context = client_context(tls_files, ssl.TLSVersion.TLSv1_3)
            if pair is not None:
                context.load_cert_chain(pair.certificate_file, pair.private_key_file)
            async with raw_client(nsqd.tcp_address) as client:
                if pair is tls_files.client:
                    await client.negotiate({"tls_v1": True}, context)
                    await client.publish("t", b"x")
                else:
                    # The refusal of TLS 1.3 comes behind the handshake, in place of the OK.
                    with pytest.raises((ssl.SSLError, anyio.BrokenResourceError)):
                        await client.negotiate({"tls_v1": True}, context)
