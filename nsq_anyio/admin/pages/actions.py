"""``/actions``: does what a form orders, and shows what came of it on each server."""

from __future__ import annotations

from functools import partial

from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..actions import Order
from ..api.cluster_info import ClusterInfo, UnknownNode, UpstreamError
from ..results import results
from . import dialogs, wording
from .effects import Effects, find_effects
from .forms import Form, InvalidOrder, order_of
from .rendering import segment
from .request import Visit


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


async def act(visit: Visit) -> Response:
    """Answer a form that was sent from the dialog with what goes into the dialog next."""
    try:
        visit.site.access.check_form(visit.request)
        form = await Form.read(visit.request)
    except Refusal as refused:
        return dialogs.refusal(visit, refused)
    return await visit.site.once.respond(form.get("number"), partial(_act, visit, form))


async def _act(visit: Visit, form: Form) -> Response:
    try:
        order = order_of(form.get)
    except InvalidOrder as error:
        if form.get("action") == "create":
            names = form.get("topic"), form.get("channel")
            return dialogs.creation(visit, *names, error=str(error), status=400)
        return dialogs.failure(visit, 400, "This cannot be done", str(error))
    async with visit.site.upstream.used() as servers:
        before, cluster = ClusterInfo(servers), ClusterInfo(servers)
        try:
            unconfirmed = await _unconfirmed(before, order, form)
            if unconfirmed is not None:
                reason = wording.has_to_be_typed(unconfirmed, was_typed=bool(form.get("typed")))
                return dialogs.confirmation(visit, unconfirmed, error=reason, status=409)
            await visit.site.actions.perform(cluster, visit.request, order)
        except UnknownNode:
            return dialogs.failure(visit, 404, wording.heading(order), wording.UNKNOWN_NODE)
        except UpstreamError:
            cluster.log_warnings()
    return dialogs.result(visit, order, cluster.outcomes or before.outcomes)


async def _unconfirmed(cluster: ClusterInfo, order: Order, form: Form) -> Effects | None:
    """Return what would be lost if its name has to be typed and was not; None if nothing stands in the way.

    The dialog may have been opened long ago, when there was nothing to lose yet.
    """
    if not order.discards or form.get("typed") == order.name:
        return None
    effects = await find_effects(cluster, order)
    return effects if effects.name_to_type else None
