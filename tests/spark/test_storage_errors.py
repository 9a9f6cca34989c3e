"""What a storage refuses is explained, and no secret is told."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import traceback
from itertools import count

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli
from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.options import read_options
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_errors import SpoolError
from nsq_anyio.spark.stream_reader import NsqStreamReader
from nsq_anyio.storage.interface import NOT_ALLOWED, StorageFailure
from nsq_anyio.storage.object_stores import object_store
from nsq_anyio.storage.place import Place, place_of, storage_of
from nsq_anyio.storage.remote import RemotePlace, RemoteStorage

from .bad_storages import refusing_s3, running_careless_store
from .storages import (
    ACCOUNT,
    ACCOUNT_KEY,
    KEY,
    SECRET,
    SETTINGS,
    Server,
    environment_of_azure,
    environment_of_gcs,
    environment_of_s3,
)

SECRETS = (SECRET, KEY, ACCOUNT_KEY, "Signature=", "AWS4", "SharedKey", "hush")

ENVIRONMENTS = {"s3": environment_of_s3, "gs": environment_of_gcs, "abfss": environment_of_azure}
each_kind = pytest.mark.parametrize("scheme", ENVIRONMENTS)

NOT_VALID = "the settings of %s in the environment are incomplete or not valid"
NO_TOKEN = "no credentials of %s were found, or no token was given for them"
QUERY = "1f0c0000-0000-4000-8000-000000000001"

_buckets = count(1)


def no_such_bucket(scheme: str = "s3") -> str:
    """A bucket that no other test uses: a process keeps the settings with which it has met one."""
    name = f"bucket-{next(_buckets)}"
    return f"abfss://{name}@{ACCOUNT}.dfs.core.windows.net" if scheme == "abfss" else f"{scheme}://{name}"


def created(location: str) -> SpoolError:
    with pytest.raises(SpoolError) as caught:
        Spool.create(location, QUERY, "clicks", "spark")
    return caught.value


def use(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """Set what a storage needs, and nothing that the machine of a developer may have for it."""
    for name in [name for name in os.environ if name.startswith(SETTINGS)]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@each_kind
def test_a_store_that_ignores_conditions_is_refused(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_careless_store() as endpoint:
        use(monkeypatch, ENVIRONMENTS[scheme](endpoint))
        location = f"{no_such_bucket(scheme)}/spools"
        error = created(location)
        assert error.path == f"{location}/{QUERY}"
        assert "this store ignores the condition of a put, so that one task could replace rows of" in str(
            error
        )
        assert "use a store that honours it (If-None-Match: * of S3 and Azure, x-goog" in str(error)
        # A restarted query finds it out as well.
        with pytest.raises(SpoolError, match="ignores the condition"):
            Spool.open(location, QUERY, "clicks", "spark")


@pytest.mark.parametrize(("server", "scheme"), [("s3", "s3"), ("gcs", "gs"), ("azure", "abfss")])
def test_a_bucket_that_is_missing_is_told(
    server: str, scheme: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: Server = request.getfixturevalue(server)
    use(monkeypatch, running.environment)
    assert "no such bucket or directory: make it, or correct the URL" in str(
        created(f"{no_such_bucket(scheme)}/spools")
    )


@pytest.mark.parametrize(
    ("server", "scheme", "name", "key"),
    [
        ("s3", "s3", "AWS_SECRET_ACCESS_KEY", f"not {SECRET}"),
        ("azure", "abfss", "AZURE_STORAGE_ACCOUNT_KEY", "aHVzaA=="),
    ],
)
def test_wrong_credentials_are_told_without_them(
    server: str,
    scheme: str,
    name: str,
    key: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server repeats the key and what was signed, and obstore repeats what the server says."""
    running: Server = request.getfixturevalue(server)
    use(monkeypatch, {**running.environment, name: key})
    error = created(f"{no_such_bucket(scheme)}/spools")
    assert re.search(r"(S3|Azure Storage) answered 403 \w+, \w+", str(error))
    assert "let the credentials read, write, list and delete" in str(error)
    told = "".join(traceback.format_exception(error)) + caplog.text
    for secret in (*SECRETS, key):
        assert secret not in told


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (400, "ExpiredToken", "AWS_SESSION_TOKEN"),
        (403, "ExpiredToken", "AWS_SESSION_TOKEN"),
        (400, "AuthorizationHeaderMalformed", "set AWS_REGION to the region of the bucket"),
        (301, "PermanentRedirect", "set AWS_REGION to the region of the bucket"),
    ],
)
def test_a_failure_of_s3_has_its_remedy(
    status: int, code: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with refusing_s3(status, code) as endpoint:
        use(monkeypatch, environment_of_s3(endpoint))
        error = created(f"{no_such_bucket()}/spools")
    assert remedy in str(error)
    assert "hush" not in str(error)


CONFLICT = (409, "ConditionalRequestConflict")


@each_kind
def test_a_put_that_met_another_request_is_sent_again(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 says by this that it has not decided, so the marker of a directory would be missing for good."""
    objects: dict[str, bytes] = {}
    refusals = [CONFLICT, (409, "OperationAborted")]
    with running_careless_store(objects=objects, refusals=refusals) as endpoint:
        use(monkeypatch, ENVIRONMENTS[scheme](endpoint))
        place = place_of(f"{no_such_bucket(scheme)}/spools")
        storage_of(place).make(place)
        assert len(objects) == 1
        refusals[:] = [CONFLICT]
        storage_of(place).replace(place / "lease", b"content")
        assert len(objects) == 2


@each_kind
@pytest.mark.parametrize(
    "refusal", [(409, "BlobAlreadyExists"), (412, "ConditionNotMet"), (412, "PreconditionFailed")]
)
def test_a_name_that_is_taken_is_not_tried_again(
    scheme: str, refusal: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_careless_store(objects={}, refusals=[refusal]) as endpoint:
        use(monkeypatch, ENVIRONMENTS[scheme](endpoint))
        place = place_of(f"{no_such_bucket(scheme)}/spools")
        storage = storage_of(place)
        assert isinstance(storage, RemoteStorage)
        assert isinstance(place, RemotePlace)
        assert storage.create(place / "name", b"content") is False


@each_kind
def test_a_put_that_stays_undecided_is_told(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.storage.objects.GIVE_UP", 0.2)
    with running_careless_store(refusals=[CONFLICT] * 10) as endpoint:
        use(monkeypatch, ENVIRONMENTS[scheme](endpoint))
        error = created(f"{no_such_bucket(scheme)}/spools")
    assert "answered 409 Conflict, ConditionalRequestConflict" in str(error)
    assert "hush" not in "".join(traceback.format_exception(error))


def test_a_deletion_that_is_not_allowed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = "<Error><Key>{}</Key><Code>AccessDenied</Code><Message>hush</Message></Error>"
    with running_careless_store(deleted=denied) as endpoint:
        use(monkeypatch, environment_of_s3(endpoint))
        place = place_of(f"{no_such_bucket()}/spools")
        with pytest.raises(StorageFailure) as caught:
            storage_of(place).remove(place / "1")
    assert "S3 answered AccessDenied" in str(caught.value)
    assert caught.value.remedy == NOT_ALLOWED
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("given", ["nan", "100000000000000000000 seconds", "-1 second", os.fsdecode(b"\xff")])
def test_a_timeout_that_is_not_valid_is_told(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, {**environment_of_s3("http://127.0.0.1:1"), "AWS_TIMEOUT": given})
    with pytest.raises(StorageFailure, match=NOT_VALID % "S3"):
        object_store("s3://bucket").connect("s3://bucket", give_up=0.2, timeout=40.0)


@pytest.mark.parametrize(
    "command", [("list",), ("delete", "--all"), ("put-back", "--all", "--nsqd=localhost:1")]
)
def test_the_command_explains_settings_that_are_not_valid(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/hush.json"})
    name, *flags = command
    result = CliRunner().invoke(cli, ["spool", name, f"{no_such_bucket('gs')}/spools", *flags])
    assert result.exit_code == 1
    assert NOT_VALID % "Cloud Storage" in result.stderr
    assert "hush" not in result.stderr


@pytest.mark.parametrize(
    ("root", "environment", "expected"),
    [
        (
            "gs",
            {"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere/hush.json"},
            f"{NOT_VALID % 'Cloud Storage'}: set GOOGLE_APPLICATION_CREDENTIALS in the environment of every",
        ),
        (
            "gs",
            {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"type": "service_account", "private_key": "hush"}'},
            NOT_VALID % "Cloud Storage",
        ),
        (
            "abfss",
            {"AZURE_STORAGE_ACCOUNT_KEY": "hush, not Base64"},
            f"{NOT_VALID % 'Azure Storage'}: set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID",
        ),
        ("az", {}, "with az:// set AZURE_STORAGE_ACCOUNT_NAME, too"),
        (
            "abfss",
            {
                "AZURE_TENANT_ID": "tenant",
                "AZURE_CLIENT_ID": "client",
                "AZURE_CLIENT_SECRET": "hush",
                "AZURE_AUTHORITY_HOST": "http://{unreachable}",
                "AZURE_ALLOW_HTTP": "true",
            },
            f"{NO_TOKEN % 'Azure Storage'}: set AZURE_STORAGE_ACCOUNT_KEY, or",
        ),
        (
            "gs",
            {
                # Where a machine of Google's asks for the token of its service account.
                "GCE_METADATA_HOST": "{unreachable}",
                "GCE_METADATA_IP": "{unreachable}",
                "HOME": "/nowhere",
            },
            f"{NO_TOKEN % 'Cloud Storage'}: set GOOGLE_APPLICATION_CREDENTIALS",
        ),
    ],
)
def test_credentials_that_are_missing_are_named(
    root: str,
    environment: dict[str, str],
    expected: str,
    unreachable: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("nsq_anyio.storage.objects.GIVE_UP", 0.2)
    use(
        monkeypatch,
        {name: value.replace("{unreachable}", unreachable) for name, value in environment.items()},
    )
    error = created(f"{no_such_bucket(root)}/spools")
    assert expected in str(error)
    assert "hush" not in "".join(traceback.format_exception(error)) + caplog.text


def test_a_server_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, unreachable: str) -> None:
    monkeypatch.setattr("nsq_anyio.storage.objects.GIVE_UP", 0.2)
    monkeypatch.setattr("nsq_anyio.storage.webhdfs_client.GIVE_UP", 0.2)
    names = {"s3": "S3", "gs": "Cloud Storage", "abfss": "Azure Storage"}
    for scheme, environment in ENVIRONMENTS.items():
        use(monkeypatch, environment(f"http://{unreachable}"))
        assert f"{names[scheme]} cannot be used: Connect" in str(created(f"{no_such_bucket(scheme)}/spools"))
    assert f"HDFS cannot be reached: ConnectError at {unreachable}" in str(
        created(f"webhdfs://{unreachable}/spools")
    )


@pytest.mark.parametrize("store", ["s3", "gcs", "azure"], indirect=True)
def test_offsets_and_what_is_sent_to_tasks_have_no_credentials(store: Place) -> None:
    options = read_options({"nsqd": "127.0.0.1:1", "topic": "clicks", "channel": "a", "spoolDir": str(store)})
    reader = NsqStreamReader(options)
    Spool.create(str(store), QUERY, "clicks", "spark").begin(1, [("127.0.0.1:1", 1)])
    sent = json.dumps(reader.initialOffset()) + repr(options) + str(pickle.dumps(reader)) + repr(store)
    for secret in SECRETS:
        assert secret not in sent


@pytest.mark.parametrize(
    "given",
    [
        "s3://key:hush@bucket/spools",
        "s3://hush@bucket/spools",
        "s3://bucket/spools?X-Amz-Signature=hush",
        "hdfs://user:hush@namenode/spools",
        "gs://hush@bucket/spools",
        "az://hush@container/spools",
        "abfss://container@account.dfs.core.windows.net/spools?sig=hush",
        "abfss://container:hush@account.dfs.core.windows.net/spools",
        "abfss://hush@container@account.dfs.core.windows.net/spools",
        "abfss://container@account.dfs.core.windows.net?sig=hush",
        "abfss://container@account.dfs.core.windows.net/hush@/spools",
    ],
)
def test_a_url_with_a_secret_is_refused_and_not_shown(given: str) -> None:
    with pytest.raises(
        InvalidOption, match=r"credentials come from the environment|without key or"
    ) as caught:
        read_options({"nsqd": "127.0.0.1:1", "topic": "clicks", "channel": "a", "spoolDir": given})
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("gopher://bucket/spools", "or the URL of a directory in S3, Google Cloud Storage, Azure or HDFS"),
        ("s3://bucket", "name a directory in s3://bucket, such as s3://bucket/nsq"),
        ("s3:///spools", "use a URL without user"),
        ("gs://bucket", "name a directory in gs://bucket, such as gs://bucket/nsq"),
        ("abfss://container/spools", "use abfss://container@account.dfs.core.windows.net/nsq"),
        (
            "abfs://container@account.dfs.core.chinacloudapi.cn/spools",
            "use az://container/nsq with AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ENDPOINT",
        ),
        (
            "abfss://container@account.dfs.core.windows.net",
            "name a directory in abfss://container@account.dfs.core.windows.net",
        ),
        ("wasbs://container@account.blob.core.windows.net/spools", "any other store works only if it is"),
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
        ("gs://bucket/spools/", "gs://bucket/spools"),
        ("az://container/spools", "az://container/spools"),
        (
            "abfs://container@account.dfs.core.windows.net/spools",
            "abfss://container@account.dfs.core.windows.net/spools",
        ),
    ],
)
def test_urls_are_normalized(given: str, expected: str) -> None:
    assert str(place_of(given)) == expected


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nsq_anyio.storage.objects", None)
    with pytest.raises(ImportError, match=r"pip install 'nsq-anyio\[object-store\]'"):
        storage_of(place_of(f"{no_such_bucket()}/spools"))
