"""The kinds of object stores: how each is reached, and what its failures mean.

obstore finds credentials in the environment of the process, in the ways that are usual for each store.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from .failure import NOT_ALLOWED, StorageFailure

__all__ = ["Client", "ObjectStore", "is_answer_lost", "object_store"]

Client: TypeAlias = S3Store | GCSStore | AzureStore

_STATUS = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"\b(?:kind: (\w+),|source: (\w+Response) {)")
_LOST = {"Interrupted", "Timeout"}
_TOKEN = re.compile(r"token request|//169\.254\.169\.254/")
"""The request by which a client gets the right to make others; the address is that of a machine's role."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """A kind of object store.

    :ivar name: what errors call it
    :ivar client: what reaches a bucket of it
    :ivar credentials: what to do if there are none
    :ivar keeps_directories: whether it may list a directory in which no object is left
    """

    name: str
    client: type[Client]
    credentials: str
    keeps_directories: bool = False

    def connect(self, root: str, give_up: float) -> Client:
        """Return a client of the bucket that a URL names.

        :param give_up: seconds for which failed requests are tried again
        :raises StorageFailure: if what the environment says of it is not enough, or not valid
        """
        try:
            return self.client.from_url(root, retry_config={"retry_timeout": timedelta(seconds=give_up)})
        except BaseError:
            text = f"the settings of {self.name} in the environment are incomplete or not valid"
            raise StorageFailure(errno.EINVAL, text, self.credentials) from None

    @contextmanager
    def as_os_error(self) -> Generator[None]:
        """Raise what obstore raises as an `OSError`, without its text: it repeats what the server says.

        :raises FileNotFoundError: if there is no such object
        :raises StorageFailure: for all other failures
        """
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, "No such object") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise StorageFailure(errno.EACCES, self._told(error), NOT_ALLOWED) from None
        except BaseError as error:
            if _TOKEN.search(str(error)):
                text = f"no credentials of {self.name} were found, or no token was given for them"
                raise StorageFailure(errno.EACCES, text, self.credentials) from None
            raise StorageFailure(errno.EIO, self._told(error)) from None

    def _told(self, error: Exception) -> str:
        """Return what kind of failure it was: the HTTP status with a code, or the kind of network failure."""
        text = str(error)
        status = _STATUS.search(text)
        if status is None:
            kind = _KIND.search(text)
            told = kind[1] or kind[2] if kind else type(error).__name__
            return f"{self.name} cannot be used: {told}"
        code = _CODE.search(text)
        return f"{self.name} answered {status[1].strip()}{f', {code[1]}' if code else ''}"


_EVERYWHERE = "in the environment of every process that uses the store"
_S3 = ObjectStore(
    "S3", S3Store, f"set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY {_EVERYWHERE}, or give them a role"
)
_GCS = ObjectStore(
    "Cloud Storage",
    GCSStore,
    f"set GOOGLE_APPLICATION_CREDENTIALS {_EVERYWHERE} to a key file of a service account, or give the "
    "machines a service account",
)
_AZURE = ObjectStore(
    "Azure Storage",
    AzureStore,
    f"set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, "
    f"{_EVERYWHERE}, or give the machines a managed identity; with az:// set AZURE_STORAGE_ACCOUNT_NAME, too",
    keeps_directories=True,
)
_STORES = {"s3": _S3, "gs": _GCS, "az": _AZURE, "abfss": _AZURE}


def is_answer_lost(error: BaseError) -> bool:
    """Return whether the store may have done what it was asked for, though no answer came."""
    kind = _KIND.search(str(error))
    return kind is not None and kind[1] in _LOST


def object_store(root: str) -> ObjectStore:
    """Return the kind of the store that a URL names."""
    return _STORES[root.partition("://")[0]]
