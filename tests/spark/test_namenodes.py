"""Which HTTP servers a URL of HDFS means, and what happens when one of them does not want to answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_errors import SpoolError
from nsq_anyio.storage.place import Place, place_of, storage_of
from nsq_anyio.storage.webhdfs_client import http_addresses

from .bad_storages import refusing_namenode
from .storages import Server

pytestmark = pytest.mark.timeout(180)  # HDFS takes its time to start


@pytest.mark.parametrize("store", ["hdfs"], indirect=True)
def test_another_namenode_is_asked_when_one_is_in_standby(
    store: Place, hdfs: Server, unreachable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = hdfs.root.partition("://")[2]
    with refusing_namenode(403, "StandbyException") as standby:
        names = {"nn1": unreachable, "nn2": standby, "nn3": active}
        settings = {"dfs.nameservices": "lake", "dfs.ha.namenodes.lake": ",".join(names)}
        settings |= {f"dfs.namenode.http-address.lake.{name}": address for name, address in names.items()}
        properties = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
        (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(properties)}</configuration>")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        place = place_of(f"hdfs://lake/{str(store).rpartition('/')[2]}")
        assert storage_of(place).put(place / "name", b"content")
    # The standby is gone, but it is not asked any more.
    assert storage_of(store).get(store / "name") == b"content"
    assert storage_of(place).get(place / "name") == b"content"


@pytest.mark.parametrize("store", ["hdfs"], indirect=True)
def test_a_user_without_permission_is_told(store: Place) -> None:
    """The user is asked for once, so it is another process."""
    program = (
        "import sys\n"
        "from nsq_anyio.spark.spool import Spool\n"
        "from nsq_anyio.spark.spool_errors import SpoolError\n"
        "try:\n"
        "    Spool.create(sys.argv[1], 'query', 'clicks', 'spark')\n"
        "except SpoolError as error:\n"
        "    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(store)],
        capture_output=True,
        text=True,
        check=True,
        env={"HADOOP_USER_NAME": "stranger", "PATH": ""},
    )
    assert result.stdout == (
        f"spool {store / 'query'}: HDFS answered 403, AccessControlException: let the credentials "
        "read, write, list and delete there\n"
    )


@pytest.mark.parametrize(
    ("status", "exception", "reason"),
    [
        (401, "AuthenticationException", "WebHDFS with Kerberos is not supported"),
        (403, "DSQuotaExceededException", "free some space; what was not stored stays in NSQ"),
        (403, "StandbyException", "HDFS cannot be reached: HDFS answered 403, StandbyException"),
        (500, "<script>", "HDFS answered 500"),
    ],
)
def test_a_refusal_is_explained(
    status: int, exception: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsq_anyio.storage.webhdfs_client.GIVE_UP", 0.2)
    with refusing_namenode(status, exception) as address, pytest.raises(SpoolError) as caught:
        Spool.create(f"webhdfs://{address}/spools", "query", "clicks", "spark")
    assert reason in str(caught.value)
    assert "script" not in str(caught.value)


def test_no_proxy_of_the_environment_is_used(unreachable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one for nsqd and nsqlookupd."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{unreachable}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr("nsq_anyio.storage.webhdfs_client.GIVE_UP", 0.2)
    with refusing_namenode(403, "AccessControlException") as address, pytest.raises(SpoolError) as caught:
        Spool.create(f"webhdfs://{address}/spools", "query", "clicks", "spark")
    assert "HDFS answered 403, AccessControlException" in str(caught.value)


SITE = """<?xml version="1.0"?>
<configuration>
  <property><name>dfs.nameservices</name><value>lake, other</value></property>
  <property><name>dfs.ha.namenodes.lake</name><value>nn1,nn2</value></property>
  <property><name>dfs.namenode.http-address.lake.nn1</name><value>one:9870</value></property>
  <property><name>dfs.namenode.http-address.lake.nn2</name><value>two:9870</value></property>
  <property><name>dfs.namenode.https-address.lake.nn1</name><value>one:9871</value></property>
  <property><name>dfs.http.policy</name><value>{policy}</value></property>
</configuration>
"""


@pytest.mark.parametrize(
    ("policy", "root", "expected"),
    [
        ("HTTP_ONLY", "hdfs://lake", ["http://one:9870", "http://two:9870"]),
        ("HTTPS_ONLY", "hdfs://lake", ["https://one:9871"]),
        ("HTTP_ONLY", "hdfs://namenode:8020", ["http://namenode:9870"]),
        ("HTTP_ONLY", "hdfs://namenode", ["http://namenode:9870"]),
        ("HTTP_ONLY", "hdfs://[::1]:8020", ["http://[::1]:9870"]),
        ("HTTPS_ONLY", "hdfs://namenode", ["https://namenode:9871"]),
        ("HTTP_ONLY", "webhdfs://namenode:14000", ["http://namenode:14000"]),
        ("HTTP_ONLY", "swebhdfs://namenode", ["https://namenode:9871"]),
    ],
)
def test_the_addresses_of_hdfs_come_from_its_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, root: str, expected: list[str]
) -> None:
    (tmp_path / "hdfs-site.xml").write_text(SITE.format(policy=policy))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert http_addresses(root) == expected


def test_a_name_service_without_addresses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert http_addresses("hdfs://other") == ["http://other:9870"]
    (tmp_path / "hdfs-site.xml").write_text(SITE.format(policy="HTTP_ONLY"))
    with pytest.raises(
        InvalidOption, match=r"knows the name service other, but not dfs\.namenode\.http-address"
    ):
        http_addresses("hdfs://other")
    (tmp_path / "hdfs-site.xml").write_text("<configuration>")
    with pytest.raises(InvalidOption, match=r"cannot read .*hdfs-site\.xml"):
        http_addresses("hdfs://other")
