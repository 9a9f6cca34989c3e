"""The dashboard of a cluster, and nsqadmin's HTTP API: an ASGI 3 application, without a web framework.

::

    import nsq_anyio.admin

    application = nsq_anyio.admin.app(nsqlookupd="http://127.0.0.1:4161")

::

    options         the settings
    application     ASGI: lifespan, and each request
    pages/          the pages of the dashboard
    messages/       live tails, publishing, and jobs on dead letters
    api/            nsqadmin's API
    live            ``/events``, ``/history`` and ``/metrics``
    access          permissions: users, hosts, addresses
    actions         commands to the cluster, with log lines and notifications
    upstream        HTTP clients of the servers
    notifications   posts to an HTTP server after each action

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
