"""Requests to WebHDFS: metadata come from the active namenode, content from a datanode that it names.

``webhdfs://`` and ``swebhdfs://`` name the HTTP server. ``hdfs://`` names a name service of Hadoop's
configuration, which has one or more namenodes, or else a host whose HTTP server listens on its usual port.
"""

from __future__ import annotations

import errno
import getpass
import os
import weakref
from functools import partial
from operator import ne
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree as ET

import httpx

from ..errors import InvalidOption
from .interface import NOT_ALLOWED, StorageFailure
from .remote import GIVE_UP, Patience

_TIMEOUT = httpx.Timeout(30.0, connect=5.0)

_ERRORS: dict[str, tuple[type[OSError], int, str]] = {
    "FileNotFoundException": (FileNotFoundError, errno.ENOENT, "No such file or directory"),
    "FileAlreadyExistsException": (FileExistsError, errno.EEXIST, "File exists"),
    "ParentNotDirectoryException": (NotADirectoryError, errno.ENOTDIR, "Not a directory"),
}
_NOT_NOW = {"StandbyException", "RetriableException", "SafeModeException"}
_NO_SPACE = {"DSQuotaExceededException", "NSQuotaExceededException", "QuotaExceededException"}
_FORBIDDEN = {"AccessControlException", "SecurityException", "AuthorizationException"}

_HTTP_PORT = 9870
_HTTPS_PORT = 9871


class _Again(Exception):
    """No usable answer now; another server, or this one later, may answer."""


class DatanodeFailed(StorageFailure):
    """A datanode failed. The namenode may name another, unless this one is on the client's own machine."""


class WebHdfsClient:
    """The requests of one process to one file system.

    The user is that of ``HADOOP_USER_NAME``, or else of the process, as everywhere in Hadoop.

    :param root: ``scheme://server``
    :raises InvalidOption: if Hadoop's configuration does not know the server
    """

    def __init__(self, root: str) -> None:
        self._addresses = http_addresses(root)
        self._user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        # With an explicit transport, httpx takes no proxy from the environment; neither does nsqd's client.
        self._http = httpx.Client(timeout=_TIMEOUT, transport=httpx.HTTPTransport())
        weakref.finalize(self, self._http.close)  # at the end of the process at the latest

    def ask(self, method: str, path: str, operation: str, **parameters: str) -> Any:
        """Send a request to the active namenode; return its JSON, or None for an empty answer.

        A request may be sent again when its answer is lost.

        :raises OSError: as `Storage` says
        """
        query = {"op": operation, "user.name": self._user, **parameters}
        patience = Patience(GIVE_UP)  # a standby namenode takes over within less
        failure = ""
        while True:
            for address in list(self._addresses):
                try:
                    answer = self._send(method, f"{address}/webhdfs/v1{quote(path)}", params=query)
                except _Again as again:
                    failure = str(again)
                else:
                    # The next request begins with the namenode that has answered.
                    self._addresses.sort(key=partial(ne, address))
                    return answer.json() if answer.content else None
            if not patience.pause():
                raise StorageFailure(errno.EIO, f"HDFS cannot be reached: {failure}")

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        :raises DatanodeFailed: if another try may succeed
        :raises OSError: as `Storage` says
        """
        return self._at_datanode("GET", path, "OPEN").content

    def write(self, path: str, content: bytes, *, overwrite: bool) -> None:
        """Write a file in a directory that exists; the file is complete when this returns.

        :raises DatanodeFailed: if another try may succeed; a part of the file may still appear later
        :raises OSError: as `Storage` says
        """
        flags = {"overwrite": str(overwrite).lower(), "createparent": "false"}
        self._at_datanode("PUT", path, "CREATE", content, **flags)

    def _at_datanode(
        self, method: str, path: str, operation: str, content: bytes | None = None, **parameters: str
    ) -> httpx.Response:
        location = self.ask(method, path, operation, noredirect="true", **parameters)["Location"]
        try:
            return self._send(method, location, content=content)
        except _Again as again:
            text = f"a datanode of HDFS cannot be reached: {again}"
            raise DatanodeFailed(errno.EIO, text) from None

    def _send(self, method: str, url: str, **more: Any) -> httpx.Response:
        try:
            answer = self._http.request(method, url, **more)
        except httpx.TransportError as error:
            # Without the URL, which contains the user.
            raise _Again(f"{type(error).__name__} at {httpx.URL(url).netloc.decode()}") from None
        if answer.is_success:
            return answer
        raise _error_of(answer)


def _error_of(answer: httpx.Response) -> OSError | _Again:
    """Return the error for an answer. Only the exception's name is taken from its text."""
    try:
        name = str(answer.json()["RemoteException"]["exception"])
    except (ValueError, KeyError, TypeError):
        name = ""
    description = f"HDFS answered {answer.status_code}{f', {name}' if name.isidentifier() else ''}"
    if name in _ERRORS:
        kind, code, text = _ERRORS[name]
        return kind(code, text)
    if name in _NOT_NOW:
        return _Again(description)
    if name in _NO_SPACE:
        return StorageFailure(errno.EDQUOT, description)
    if answer.status_code == 401:
        return StorageFailure(
            errno.EACCES,
            description,
            "WebHDFS with Kerberos is not supported: use a directory where HDFS is mounted, or an object "
            "store",
        )
    if name in _FORBIDDEN or (answer.status_code == 403 and not name):
        return StorageFailure(errno.EACCES, description, NOT_ALLOWED)
    return StorageFailure(errno.EIO, description)


def http_addresses(root: str) -> list[str]:
    """Return the URLs of the namenodes of ``scheme://server``, one of which is active.

    :raises InvalidOption: if Hadoop's configuration cannot be read, or names no address for a name service
    """
    scheme, _, server = root.partition("://")
    if scheme == "webhdfs":
        return [f"http://{_with_port(server, _HTTP_PORT)}"]
    if scheme == "swebhdfs":
        return [f"https://{_with_port(server, _HTTPS_PORT)}"]
    settings = _settings()
    is_https = settings.get("dfs.http.policy") == "HTTPS_ONLY"
    kind, port = ("https", _HTTPS_PORT) if is_https else ("http", _HTTP_PORT)
    if server not in _listed(settings.get("dfs.nameservices", "")):
        host = urlsplit(root).hostname or server
        # The port of an ``hdfs://`` URL is the RPC server's.
        return [f"{kind}://{f'[{host}]' if ':' in host else host}:{port}"]
    option = f"dfs.namenode.{kind}-address.{server}"
    namenodes = _listed(settings.get(f"dfs.ha.namenodes.{server}", ""))
    names = [f"{option}.{namenode}" for namenode in namenodes] or [option]
    found = [settings[name] for name in names if name in settings]
    if not found:
        raise InvalidOption(f"hdfs-site.xml knows the name service {server}, but not {' or '.join(names)}")
    return [f"{kind}://{address}" for address in found]


def _with_port(server: str, port: int) -> str:
    return server if ":" in server.rpartition("]")[2] else f"{server}:{port}"


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _settings() -> dict[str, str]:
    """Return Hadoop's settings of HDFS; none without ``HADOOP_CONF_DIR``."""
    directory = os.environ.get("HADOOP_CONF_DIR")
    if not directory:
        return {}
    path = Path(directory, "hdfs-site.xml")
    try:
        # This is the administrator's file, and not the answer of a server.
        tree = ET.parse(path)  # noqa: S314
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise InvalidOption(f"cannot read {path}, where HADOOP_CONF_DIR is: {error}") from None
    found = ((each.findtext("name"), each.findtext("value")) for each in tree.getroot().iter("property"))
    return {name.strip(): value.strip() for name, value in found if name and value}
