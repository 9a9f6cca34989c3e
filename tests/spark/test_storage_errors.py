"""What a storage refuses is explained, and no secret is told."""

from __future__ import annotations

import json
import pickle
import sys
import traceback
from itertools import count

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.given_options import read_options
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_errors import SpoolError
from nsq_anyio.spark.storage.place import Place, place_of, storage_of
from nsq_anyio.spark.stream_reader import NsqStreamReader

from .storages import KEY, SECRET, Server, environment_of_s3, running_careless_s3

QUERY = "1f0c0000-0000-4000-8000-000000000001"

_buckets = count(1)


def no_such_bucket() -> str:
    """A bucket that no other test uses: a process keeps the settings with which it has met one."""
    return f"s3://bucket-{next(_buckets)}"


def created(location: str) -> SpoolError:
    with pytest.raises(SpoolError) as caught:
        Spool.create(location, QUERY, "clicks", "spark")
    return caught.value


def use(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], **more: str) -> None:
    for name, value in {**environment, **more}.items():
        monkeypatch.setenv(name, value)


def test_a_store_that_ignores_conditions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_careless_s3() as endpoint:
        use(monkeypatch, environment_of_s3(endpoint))
        location = f"{no_such_bucket()}/spools"
        error = created(location)
        assert error.path == f"{location}/{QUERY}"
        assert "this store ignores the condition of a put, so that one task could replace rows of" in str(
            error
        )
        assert "use a store that honours it (If-None-Match: * on S3)" in str(error)
        # A restarted query finds it out as well.
        with pytest.raises(SpoolError, match="ignores the condition"):
            Spool.open(location, QUERY, "clicks", "spark")


def test_a_bucket_that_is_missing_is_told(s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, s3.environment)
    assert "no such bucket or directory: make it, or correct the URL" in str(
        created(f"{no_such_bucket()}/spools")
    )


def test_wrong_credentials_are_told_without_them(
    s3: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The server repeats the key and what was signed, and obstore repeats what the server says."""
    use(
        monkeypatch,
        s3.environment,
        AWS_SECRET_ACCESS_KEY=f"not {SECRET}",
    )
    error = created(f"{no_such_bucket()}/spools")
    assert "answered 403 Forbidden" in str(error)
    assert "let the credentials that the driver and the executors use read, write, list and delete" in str(
        error
    )
    told = "".join(traceback.format_exception(error)) + caplog.text
    for secret in (SECRET, KEY, "Signature=", "AWS4"):
        assert secret not in told


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, unreachable: str) -> None:
    monkeypatch.setattr("nsq_anyio.spark.storage.objects.GIVE_UP", 0.2)
    monkeypatch.setattr("nsq_anyio.spark.storage.webhdfs_client.GIVE_UP", 0.2)
    use(monkeypatch, environment_of_s3(f"http://{unreachable}"))
    assert "the object store cannot be used: Connect" in str(created(f"{no_such_bucket()}/spools"))
    assert f"HDFS cannot be reached: ConnectError at {unreachable}" in str(
        created(f"webhdfs://{unreachable}/spools")
    )


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_offsets_and_what_is_sent_to_tasks_have_no_credentials(store: Place) -> None:
    options = read_options({"nsqd": "127.0.0.1:1", "topic": "clicks", "channel": "a", "spoolDir": str(store)})
    reader = NsqStreamReader(options)
    Spool.create(str(store), QUERY, "clicks", "spark").begin(1, [("127.0.0.1:1", 1)])
    sent = json.dumps(reader.initialOffset()) + repr(options) + str(pickle.dumps(reader)) + repr(store)
    for secret in (SECRET, KEY):
        assert secret not in sent


@pytest.mark.parametrize(
    "given",
    [
        "s3://key:hush@bucket/spools",
        "s3://hush@bucket/spools",
        "s3://bucket/spools?X-Amz-Signature=hush",
        "hdfs://user:hush@namenode/spools",
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_shown(given: str) -> None:
    with pytest.raises(InvalidOption, match="credentials come from the environment") as caught:
        read_options({"nsqd": "127.0.0.1:1", "topic": "clicks", "channel": "a", "spoolDir": given})
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("gopher://bucket/spools", "or the URL of a directory in S3 or HDFS"),
        ("s3://bucket", "name a directory in s3://bucket, such as s3://bucket/nsq-spool"),
        ("s3:///spools", "use a URL without user"),
        ("s3://bucket/a/../b", "neither . nor .."),
        ("s3://bucket/a%2Fb", "use a URL without user, password, query or escapes"),
        ("s3://bucket/a\nb", "control characters"),
    ],
)
def test_a_url_that_is_not_valid_is_explained(given: str, reason: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        place_of(given)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("s3://bucket/spools", "s3://bucket/spools"),
        ("s3a://bucket//spools/", "s3://bucket/spools"),
        ("HDFS://namenode:8020/user/spark/spools", "hdfs://namenode:8020/user/spark/spools"),
        ("file:///mnt/spools", "/mnt/spools"),
    ],
)
def test_urls_are_normalized(given: str, expected: str) -> None:
    assert str(place_of(given)) == expected


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nsq_anyio.spark.storage.objects", None)
    with pytest.raises(ImportError, match=r"pip install 'nsq-anyio\[spark-object-store\]'"):
        storage_of(place_of(f"{no_such_bucket()}/spools"))
