"""The HTTP addresses that a URL of HDFS means.

``webhdfs://`` and ``swebhdfs://`` name the HTTP server. ``hdfs://`` names what Hadoop's configuration knows:
a name service with several namenodes, or a host whose HTTP server listens on its usual port.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from ..errors import InvalidOption

_HTTP_PORT = 9870
_HTTPS_PORT = 9871


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
        # The port in such a URL is that of the RPC server.
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
        # The administrator's own file, not what a server sends.
        tree = ET.parse(path)  # noqa: S314
    except FileNotFoundError:
        return {}
    except (OSError, ET.ParseError) as error:
        raise InvalidOption(f"cannot read {path}, where HADOOP_CONF_DIR is: {error}") from None
    found = ((each.findtext("name"), each.findtext("value")) for each in tree.getroot().iter("property"))
    return {name.strip(): value.strip() for name, value in found if name and value}
