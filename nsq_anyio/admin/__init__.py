"""nsqadmin's HTTP API as an ASGI 3 application, without a web framework.

::

    import nsq_anyio.admin

    application = nsq_anyio.admin.app(nsqlookupd="http://127.0.0.1:4161")

::

    options         the settings
    application     ASGI: lifespan, and each request
    api             the endpoints
    access          who may do what: users, hosts, addresses
    configuration   ``/config``
    orders          what somebody asks the application to do
    actions         does it, and records it
    outcomes        what each server made of it
    cluster_info    what the servers answer, and actions on them
    producers       nsqds, as the servers describe them
    rows            statistics in nsqadmin's JSON
    upstream        the clients of the servers
    notifications   tells an HTTP server about actions
"""

from __future__ import annotations

from .application import Admin, app
from .options import AdminOptions

__all__ = ["Admin", "AdminOptions", "app"]
