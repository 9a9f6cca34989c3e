"""Links names in docstrings, as `Consumer.run`, to their places, and leaves out how objects are made that functions make."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

MADE_BY_USERS = (
    *(
        "DeadLetter",
        "RateLimit",
        "Requeue",
        "Discard",
        "Client",
        "Cluster",
        "Envelope",
        "Address",
        "UnixAddress",
    ),
    *(
        "OpenTelemetryMiddleware",
        "NSQCollector",
        "NsqBroker",
        "NsqRetryMiddleware",
        "Authorization",
        "AuthState",
    ),
)
"""Classes whose ``__init__`` is shown. Option classes list their parameters themselves."""


def skip(_app: Sphinx, _what: str, name: str, obj: object, _skip: object, _options: object) -> bool | None:
    """Leave out how objects are made that functions make."""
    if name not in ("__init__", "__new__"):
        return None
    owner = getattr(obj, "__qualname__", "").partition(".")[0]
    made_by_fixtures = str(getattr(obj, "__module__", "")).startswith("nsq_anyio.testing.")
    return name == "__new__" or owner not in MADE_BY_USERS or made_by_fixtures


def resolve(app: Sphinx, _env: BuildEnvironment, node: pending_xref, content: Element) -> Element | None:
    """Resolve a name that stands without its module: its own class first, then one that is unique."""
    if node.get("refdomain") != "py":
        return None
    domain = app.env.domains.python_domain
    target, owner = node["reftarget"], node.get("py:class")
    names = [f"{owner}.{target}"] if owner else []
    names += [f"nsq_anyio.{target}", f"nsq_anyio.errors.{target}", f"nsq_anyio.events.{target}"]
    names += [name for name in domain.objects if name.endswith(f".{target}")]
    if "." in target:  # an attribute that its class describes in its own docstring
        cls = target.rpartition(".")[0]
        names += [f"nsq_anyio.{cls}", *(name for name in domain.objects if name.endswith(f".{cls}"))]
    for name in names:
        if name in domain.objects:
            found = domain.objects[name]
            return _reference(app, node, content, found.docname, found.node_id)
    return None


def _reference(app: Sphinx, node: pending_xref, content: Element, page: str, place: str) -> Element:
    from sphinx.util.nodes import make_refnode

    return make_refnode(app.builder, node["refdoc"], page, place, [content])


def setup(app: Sphinx) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")  # has the event
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
