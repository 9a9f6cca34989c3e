"""The dashboard of a cluster, and nsqadmin's HTTP API: an ASGI 3 application, without a web framework.

::

    import nsq_anyio.admin

    application = nsq_anyio.admin.app(nsqlookupd="http://127.0.0.1:4161")

::

    options         the settings
    application     ASGI: lifespan, and each request
    pages/          the pages of the dashboard
    live            what changes while it is looked at
    api             the endpoints
    access          who may do what: users, hosts, addresses
    configuration   ``/config``
    cluster_info    what the servers answer, and actions on them
    producers       nsqds, as the servers describe them
    rows            statistics in nsqadmin's JSON
    upstream        the clients of the servers
    notifications   tells an HTTP server about actions

It needs Jinja2: ``pip install 'nsq-anyio[admin]'``.
"""

from __future__ import annotations

import importlib

try:
    importlib.import_module("jinja2")
except ImportError as _missing:
    raise ImportError(
        f"nsq_anyio.admin needs Jinja2 ({_missing}): pip install 'nsq-anyio[admin]'", name=_missing.name
    ) from _missing

from .application import Admin, app
from .options import AdminOptions

__all__ = ["Admin", "AdminOptions", "app"]
