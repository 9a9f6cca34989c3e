"""The kinds of object stores: their clients, the meaning of their failures, and remedies.

obstore finds credentials in the environment of the process, in the usual way of each store.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from .interface import NOT_ALLOWED, StorageFailure

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig

Client: TypeAlias = S3Store | GCSStore | AzureStore

_TRIES = 1000
"""More tries than fit into the time; obstore's ten are over within seconds if nothing listens."""

_BACKOFF: BackoffConfig = {
    "init_backoff": timedelta(seconds=0.1),
    "max_backoff": timedelta(seconds=3),
    "base": 3,
}

_CLIENT_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "http1_only",
    "http2_only",
    "http2_keep_alive_interval",
    "http2_keep_alive_timeout",
    "http2_keep_alive_while_idle",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "proxy_ca_certificate",
    "proxy_excludes",
    "randomize_addresses",
    "timeout",
    "user_agent",
}

_REMEDIES = (
    (
        re.compile(r"incorrectly configured region|<Code>(AuthorizationHeaderMalformed|PermanentRedirect)<"),
        "set AWS_REGION to the region of the bucket",
    ),
    (
        re.compile(r"<Code>(ExpiredToken|InvalidToken)<"),
        "set new credentials, with the AWS_SESSION_TOKEN that belongs to them, or give the machines a role",
    ),
)
"""Remedies for failures that S3 reports in its own words."""

_STATUS = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"\b(?:kind: (\w+),|source: (\w+Response) {|inner: (BareRedirect),)")
_CONFLICT = "status code: 409"
_LOST = re.compile(r"\bkind: (?:Interrupted|Timeout),")
_DENIED = "(code: AccessDenied)"
"""S3 answers 200 to the deletion of several objects, with a result for each."""

_TOKEN = re.compile(r"token request|//169\.254\.169\.254/")
"""A failed request for an access token; the address is the metadata service of cloud machines."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A kind of object store.

    :ivar name: its name in errors
    :ivar client: the class of clients for its buckets
    :ivar prefix: the prefix of its settings in the environment, in lower case
    :ivar credentials: the remedy for missing credentials
    :ivar keeps_directories: whether it may list a directory that has no objects left
    """

    name: str
    client: type[Client]
    prefix: str
    credentials: str
    keeps_directories: bool = False

    def connect(self, root: str, give_up: float, timeout: float | None = None) -> Client:
        """Return a client of the bucket that a URL names.

        :param give_up: seconds for which failed requests are tried again
        :param timeout: seconds for one request, unless the environment sets a timeout; None for obstore's 30
        :raises StorageFailure: if its settings in the environment are incomplete or not valid
        """
        try:
            return self.client.from_url(
                root,
                client_options=None if timeout is None else self._client_options(timeout),
                retry_config={
                    "retry_timeout": timedelta(seconds=give_up),
                    "max_retries": _TRIES,
                    "backoff": _BACKOFF,
                },
            )
        except (BaseError, UnicodeError):  # obstore fails for environment variables that are not UTF-8
            text = f"the settings of {self.name} in the environment are incomplete or not valid"
            raise StorageFailure(errno.EINVAL, text, self.credentials) from None

    def _client_options(self, timeout: float) -> ClientConfig:
        """Return the timeout, and the client options in the environment, which obstore would ignore here."""
        found: dict[str, object] = {"timeout": timedelta(seconds=timeout)}
        for name, value in os.environ.items():
            key = name.lower().removeprefix(self.prefix)
            if name.startswith(self.prefix.upper()) and key in _CLIENT_OPTIONS:
                found[key] = value
        return cast("ClientConfig", found)

    @contextmanager
    def as_os_error(self) -> Generator[None]:
        """Turn the errors of obstore into `OSError`, without their texts, which repeat the server's.

        :raises FileNotFoundError: if there is no such object
        :raises StorageFailure: for all other failures
        """
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "No such object") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            remedy = _remedy(error) or NOT_ALLOWED
            raise StorageFailure(errno.EACCES, self._described(error), remedy) from None
        except BaseError as error:
            if _DENIED in str(error):
                text = f"{self.name} answered AccessDenied"
                raise StorageFailure(errno.EACCES, text, NOT_ALLOWED) from None
            if _TOKEN.search(str(error)):
                text = f"no credentials of {self.name} were found, or no token was given for them"
                raise StorageFailure(errno.EACCES, text, self.credentials) from None
            raise StorageFailure(errno.EIO, self._described(error), _remedy(error)) from None

    def _described(self, error: Exception) -> str:
        """Return the kind of failure: the HTTP status with a code, or the kind of network failure."""
        text = str(error)
        status = _STATUS.search(text)
        if status is None:
            kind = _KIND.search(text)
            what = kind[kind.lastindex or 0] if kind else type(error).__name__
            return f"{self.name} cannot be used: {what}"
        code = _CODE.search(text)
        return f"{self.name} answered {status[1].strip()}{f', {code[1]}' if code else ''}"


_EVERYWHERE = "in the environment of every process that uses the store"
_S3 = ObjectStore(
    "S3",
    S3Store,
    "aws_",
    f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY {_EVERYWHERE}, or give them a role",
)
_GCS = ObjectStore(
    "Cloud Storage",
    GCSStore,
    "google_",
    f"set GOOGLE_APPLICATION_CREDENTIALS {_EVERYWHERE} to a key file of a service account, or give the "
    "machines a service account",
)
_AZURE = ObjectStore(
    "Azure Storage",
    AzureStore,
    "azure_",
    f"set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, "
    f"{_EVERYWHERE}, or give the machines a managed identity; with az:// set AZURE_STORAGE_ACCOUNT_NAME, too",
    keeps_directories=True,
)
_STORES = {"s3": _S3, "gs": _GCS, "az": _AZURE, "abfss": _AZURE}


def _remedy(error: Exception) -> str:
    return next((remedy for pattern, remedy in _REMEDIES if pattern.search(str(error))), "")


def is_answer_lost(error: Exception) -> bool:
    """Return whether the store may have executed a request whose answer was lost."""
    return isinstance(error, BaseError) and _LOST.search(str(error)) is not None


def is_undecided(error: Exception) -> bool:
    """Return whether a put conflicted with another request for its object, and has to be sent again.

    obstore reports each 409 as a name that is taken. But S3 answers 412 for a taken name, and 409 with
    ConditionalRequestConflict for a conflict with a deletion or another put. Of Azure's 409s, only
    BlobAlreadyExists means that the name is taken.
    """
    text = str(error)
    code = _CODE.search(text)
    is_taken = code is not None and code[1].endswith("AlreadyExists")
    return isinstance(error, AlreadyExistsError) and _CONFLICT in text and not is_taken


def object_store(root: str) -> ObjectStore:
    """Return the kind of the store that a URL names."""
    return _STORES[root.partition("://")[0]]
