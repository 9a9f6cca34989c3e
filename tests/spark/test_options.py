"""Options: an error names the option as it is documented, the value, and what is allowed; no secret."""

from __future__ import annotations

import pickle
import re
import ssl
from dataclasses import fields
from pathlib import Path

import pytest

from nsq_anyio.errors import InvalidAddress, InvalidOption
from nsq_anyio.options import ConnectionOptions, ProducerOptions, TLSOptions
from nsq_anyio.spark.options import ReadOptions, WriteOptions, batch_read_options, read_options, write_options

from ..options.reference import table
from ..tls_files import TLSFiles

READ = {"topic": "clicks", "channel": "spark", "nsqd": "127.0.0.1:4150"}
WRITE = {"nsqd": "127.0.0.1:4150"}
SECRET = "hunter2"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"


def test_defaults() -> None:
    assert read_options(READ) == ReadOptions(
        topic="clicks",
        channel="spark",
        nsqds=("127.0.0.1:4150",),
        nsqd_http=("http://127.0.0.1:4151",),
        max_rows_per_batch=1_000_000,
        max_in_flight=5_000,
        max_wait=1.0,
        connect_timeout=10.0,
        http_timeout=10.0,
    )
    assert write_options(WRITE) == WriteOptions(nsqds=("127.0.0.1:4150",), batch_rows=2_000)


def test_every_option_is_read_whatever_its_case() -> None:
    given = {
        **READ,
        "nsqd": "127.0.0.1:4150, [::1]:4150",
        "nsqdHttp": "http://127.0.0.1:1, http://[::1]:2",
        "connectTimeout": "1.5",
        "httpTimeout": "2",
        "clientId": "me",
        "tls": "TRUE",
        "tlsCaFile": "/ca.pem",
        "tlsCertificateFile": "/cert.pem",
        "tlsPrivateKeyFile": "/key.pem",
        "tlsPrivateKeyPassword": SECRET,
        "tlsMinimumVersion": "tlsv1.3",
        "tlsServerHostname": "nsqd.example",
        "tlsVerify": "false",
        "compression": "Deflate",
        "deflateLevel": "9",
        "authSecret": SECRET,
        "lookupdAuthorization": "true",
        "spoolDir": "/mnt/spool/",
        "maxRowsPerBatch": "10",
        "maxBytesPerBatch": "11",
        "minPartitions": "12",
        "maxRowsPerPartition": "13",
        "maxInFlight": "14",
        "maxWait": "0.5",
        "msgTimeout": "15",
        "createChannel": "everywhere",
        "headers": "true",
        "peek": "true",
        "maxRows": "16",
    }
    expected = ReadOptions(
        topic="clicks",
        channel="spark",
        nsqds=("127.0.0.1:4150", "[::1]:4150"),
        nsqd_http=("http://127.0.0.1:1", "http://[::1]:2"),
        connect_timeout=1.5,
        http_timeout=2.0,
        client_id="me",
        tls=True,
        tls_ca_file="/ca.pem",
        tls_certificate_file="/cert.pem",
        tls_private_key_file="/key.pem",
        tls_private_key_password=SECRET,
        tls_minimum_version="TLSv1.3",
        tls_server_hostname="nsqd.example",
        tls_verify=False,
        compression="deflate",
        deflate_level=9,
        auth_secret=SECRET,
        lookupd_authorization=True,
        spool_dir="/mnt/spool",
        max_rows_per_batch=10,
        max_bytes_per_batch=11,
        min_partitions=12,
        max_rows_per_partition=13,
        max_in_flight=14,
        max_wait=0.5,
        msg_timeout=15.0,
        create_channel="everywhere",
        headers=True,
        peek=True,
        max_rows=16,
    )
    assert read_options(given) == expected
    # Spark hands them over in lower case.
    assert read_options({name.lower(): value for name, value in given.items()}) == expected


def test_every_option_of_a_write_is_read() -> None:
    given = {
        "nsqlookupd": "http://127.0.0.1:4161,http://127.0.0.2:4161",
        "topic": "clicks",
        "mode": "hostpool",
        "batchRows": "1",
        "batchBytes": "2",
        "maxInFlight": "3",
        "publishTimeout": "4",
        "resendUnknown": "false",
        "maxMsgSize": "100",
        "maxBodySize": "200",
        "maxDefer": "7",
        "authSecretFile": "/secret",
        # Spark's own, which it passes on.
        "checkpointLocation": "/checkpoint",
        "queryName": "q",
    }
    options = write_options(given)
    assert options == WriteOptions(
        nsqlookupds=("http://127.0.0.1:4161", "http://127.0.0.2:4161"),
        topic="clicks",
        mode="hostpool",
        batch_rows=1,
        batch_bytes=2,
        max_in_flight=3,
        publish_timeout=4.0,
        resend_unknown=False,
        max_msg_size=100,
        max_body_size=200,
        max_defer=7.0,
        auth_secret_file="/secret",
    )
    producer = options.producer_options()
    assert (producer.mode, producer.max_outstanding, producer.resend_unknown) == ("hostpool", 3, False)
    assert (producer.max_msg_size, producer.max_body_size, producer.max_defer) == (100, 200, 7.0)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("topic", "no topic", "no topic"),
        ("channel", "x" * 65, "64"),
        ("nsqd", "127.0.0.1", "port"),
        ("nsqd", "127.0.0.1:4150,", "separated by commas"),
        ("nsqd", "127.0.0.1:4150,127.0.0.1:4150", "once"),
        ("nsqdHttp", "ftp://127.0.0.1:4151", "http"),
        ("connectTimeout", "0", "0.001 or more"),
        ("connectTimeout", "inf", "0.001 or more"),
        ("connectTimeout", "nan", "0.001 or more"),
        ("connectTimeout", "soon", "seconds"),
        ("clientId", "", "non-empty"),
        ("tls", "yes", "true or false"),
        ("tlsCaFile", "ca.pem", "absolute"),
        ("tlsMinimumVersion", "TLSv1", "TLSv1.2 or TLSv1.3"),
        ("compression", "gzip", "none, snappy or deflate"),
        ("deflateLevel", "10", "1 to 9"),
        ("authSecretFile", "secret", "absolute"),
        ("spoolDir", "spool", "absolute path"),
        ("spoolDir", "s3://bucket", "name a directory in s3://bucket"),
        ("spoolDir", "ftp://host/spool", "S3, Google Cloud Storage, Azure or HDFS"),
        ("spoolDir", "file://host/spool", "absolute path"),
        ("maxRowsPerBatch", "0", "1 or more"),
        ("maxRowsPerBatch", "1e6", "whole number"),
        ("minPartitions", "-1", "1 or more"),
        ("maxInFlight", "many", "whole number"),
        ("maxWait", "0", "0.01 or more"),
        ("msgTimeout", "0.5", "1 or more"),
        ("peek", "1", "true or false"),
        ("maxRows", "0", "1 or more"),
    ],
)
def test_malformed_value_is_named(name: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_options(READ | {name: value})
    text = str(caught.value)
    assert text.startswith(name)
    assert value.rstrip(",") in text
    assert allowed in text
    assert text.count("is not valid") <= 1


@pytest.mark.parametrize("name", ["authSecret", "tlsPrivateKeyPassword"])
def test_malformed_secret_is_named_and_not_shown(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{name} is not valid: use a non-empty string"):
        read_options(READ | {name: ""})


def test_password_of_an_address_is_not_shown() -> None:
    with pytest.raises(InvalidAddress, match="nsqlookupd") as caught:
        read_options({"topic": "t", "channel": "c", "nsqlookupd": f"ftp://me:{SECRET}@127.0.0.1:4161"})
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("maxInFlite", "unknown option 'maxInFlite' for reading: did you mean maxInFlight?"),
        ("authSecrett", "unknown option 'authSecrett' for reading: did you mean authSecret?"),
        (
            "maxrow",
            "unknown option 'maxrow' for reading: did you mean maxRows or maxRowsPerBatch or maxRows",
        ),
        ("zzz", "unknown option 'zzz' for reading: use one of topic, channel, nsqd, "),
        ("batchrows", "option batchRows is not for reading: leave it out"),
    ],
)
def test_unknown_option_is_named_without_its_value(key: str, expected: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_options(READ | {key: SECRET})
    assert str(caught.value).startswith(expected)
    assert SECRET not in str(caught.value)


def test_option_for_reading_is_none_for_writing() -> None:
    with pytest.raises(InvalidOption, match="option spoolDir is not for writing: leave it out"):
        write_options(WRITE | {"spooldir": "/spool"})


@pytest.mark.parametrize("name", ["maxRowsPerBatch", "maxBytesPerBatch"])
def test_batch_read_names_the_bound_that_it_has(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name} is for streams: bound a batch read with maxRows"):
        batch_read_options(READ | {name.lower(): "5"})
    assert batch_read_options(READ | {"maxrows": "5", "drain": "true"}).max_rows == 5


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"topic": None}, "no topic"),
        ({"channel": None}, "no channel"),
        ({"nsqd": None}, "neither nsqd nor nsqlookupd is set"),
        ({"nsqlookupd": "http://127.0.0.1:4161"}, "both nsqd and nsqlookupd are set"),
        (
            {"nsqd": None, "nsqlookupd": "http://h:4161", "nsqdHttp": "http://h:4151"},
            "nsqdHttp has no effect with nsqlookupd",
        ),
        ({"nsqdHttp": "http://h:1,http://h:2"}, "nsqdHttp names 2 servers and nsqd 1"),
        ({"nsqd": "/run/nsqd.sock"}, "unix socket: set nsqdHttp"),
        ({"nsqd": "127.0.0.1:65535"}, "no next port: set nsqdHttp"),
        ({"authSecret": SECRET, "authSecretFile": "/secret"}, "exclude each other"),
        ({"lookupdAuthorization": "true"}, "lookupdAuthorization=true without a secret"),
        ({"tlsCaFile": "/ca.pem"}, "tlsCaFile without TLS has no effect"),
        ({"tls": "true", "tlsPrivateKeyFile": "/key.pem"}, "without a certificate: set tlsCertificateFile"),
    ],
)
def test_options_that_miss_or_exclude_each_other(changes: dict[str, str | None], expected: str) -> None:
    given = {name: value for name, value in {**READ, **changes}.items() if value is not None}
    with pytest.raises(InvalidOption) as caught:
        read_options(given)
    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"batchBytes": "6000000"}, "batchBytes=6000000 exceeds maxBodySize=5242880"),
        ({"maxMsgSize": "5242880"}, "maxMsgSize=5242880 exceeds maxBodySize=5242880"),
        ({"mode": "random"}, "use round_robin, least_outstanding, hostpool or epsilon_greedy"),
        ({"maxDefer": "-1"}, "maxDefer='-1'"),
    ],
)
def test_limits_of_a_write_fit_together(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        write_options(WRITE | changes)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "given", ["file:/mnt/spool%20s", "file:///mnt/spool%20s", "file://localhost/mnt/spool%20s"]
)
def test_spool_may_be_a_file_uri(given: str) -> None:
    assert read_options(READ | {"spoolDir": given}).spool_dir == "/mnt/spool s"
    assert read_options(READ | {"spoolDir": "/mnt/spool%20s"}).spool_dir == "/mnt/spool%20s"


def test_nsqlookupds_certificates_hold_without_tls_of_nsqd() -> None:
    given = {"topic": "t", "channel": "c", "nsqlookupd": "https://h:4161", "tlsCaFile": "/ca.pem"}
    assert read_options(given).https_urls == ("https://h:4161",)


def test_secrets_are_pickled_and_never_shown() -> None:
    options = read_options(
        {
            "topic": "t",
            "channel": "c",
            "nsqlookupd": f"http://me:{SECRET}@127.0.0.1:4161",
            "authSecret": SECRET,
            "tls": "true",
            "tlsCertificateFile": "/cert.pem",
            "tlsPrivateKeyPassword": SECRET,
        }
    )
    assert SECRET not in repr(options)
    assert SECRET not in str(options)
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert copy.secret() == SECRET


def test_secret_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    options = read_options(READ | {"authSecretFile": str(file)})
    with pytest.raises(InvalidOption, match=f"authSecretFile='{file}' cannot be read .No such file"):
        options.secret()
    file.write_bytes(b"\n")
    with pytest.raises(InvalidOption, match=f"authSecretFile='{file}' is empty"):
        options.secret()
    file.write_bytes(SECRET.encode() + b"\xff")
    with pytest.raises(InvalidOption, match="it is not UTF-8") as caught:
        options.secret()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    file.write_bytes(SECRET.encode() + b"\n")
    assert options.secret() == SECRET
    assert options.consumer_connection().auth_secret == SECRET


def test_connection_has_what_the_options_say(tls_files: TLSFiles) -> None:
    options = read_options(
        READ
        | {
            "tls": "true",
            "tlsCaFile": tls_files.ca_file,
            "tlsServerHostname": "nsqd.example",
            "tlsMinimumVersion": "TLSv1.3",
            "compression": "snappy",
            "clientId": "me",
            "connectTimeout": "3",
            "msgTimeout": "30",
        }
    )
    connection = options.consumer_connection()
    assert isinstance(connection.tls, TLSOptions)
    assert connection.tls.ssl_context is not None
    assert connection.tls.ssl_context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert connection.tls.server_hostname == "nsqd.example"
    assert (connection.snappy, connection.deflate) == (True, False)
    assert (connection.client_id, connection.dial_timeout, connection.msg_timeout) == ("me", 3.0, 30.0)
    assert options.consumer_options().max_attempts == 0


def test_file_of_tls_that_is_missing_is_named_as_its_option(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    options = read_options(READ | {"tls": "true", "tlsCaFile": str(file)})
    with pytest.raises(InvalidOption, match="tlsCaFile") as caught:
        options.consumer_connection()
    assert str(file) in str(caught.value)


def test_documentation_lists_every_option() -> None:
    """By the error for an unknown one, which lists them all."""
    listed: set[str] = set()
    for parse, given in ((read_options, READ), (write_options, WRITE)):
        with pytest.raises(InvalidOption) as caught:
            parse({**given, "zzz": ""})
        listed |= set(str(caught.value).partition("use one of ")[2].split(", "))
    assert len(listed) >= len(fields(ReadOptions))
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text(encoding="utf-8")))
    for kind in (ConnectionOptions, ProducerOptions):
        documented |= {row["Spark"] for row in table(kind).values()}
    assert listed - documented == set()
