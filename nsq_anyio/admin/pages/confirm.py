"""``/confirm``: what an action would do, before it is done."""

from __future__ import annotations

from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..cluster_info import ClusterInfo, UnknownNode, UpstreamError
from ..orders import Order
from ..outcomes import results
from . import dialogs, wording
from .effects import find_effects
from .forms import InvalidOrder, order_of
from .rendering import segment
from .visit import Visit


async def confirm(visit: Visit) -> Response:
    """Answer ``/confirm?action=&topic=&channel=&node=`` with what goes into the dialog."""
    query = visit.query.optional
    if "hx-request" not in visit.request.headers:
        place = f"/topics/{segment(query('topic'))}" if query("topic") else "/"
        return Response(303, headers=(("Location", visit.root + place), ("Cache-Control", "no-store")))
    try:
        visit.site.access.check_user(visit.request)
        if query("action") == "create":
            return dialogs.creation(visit, query("topic"), query("channel"))
        order = order_of(query)
    except Refusal as refused:
        return dialogs.refusal(visit, refused)
    except InvalidOrder as error:
        return dialogs.failure(visit, 400, "This cannot be done", str(error))
    async with visit.site.upstream.used() as servers:
        return await _confirm(visit, ClusterInfo(servers), order)


async def _confirm(visit: Visit, cluster: ClusterInfo, order: Order) -> Response:
    title = wording.heading(order)
    try:
        effects = await find_effects(cluster, order)
    except UnknownNode:
        return dialogs.failure(visit, 404, title, wording.UNKNOWN_NODE)
    except UpstreamError:
        found = results(cluster.outcomes)
        if all(each.state == "absent" for each in found):
            return dialogs.failure(visit, 404, title, wording.NOBODY_HAS_IT)
        details = [f"{each.server}: {wording.said(order, each)}" for each in found]
        return dialogs.failure(visit, 502, title, wording.NOBODY_KNOWS, details)
    return dialogs.confirmation(visit, effects)
