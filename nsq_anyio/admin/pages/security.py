"""The headers that keep pages safe."""

from __future__ import annotations

from ...serving.http_messages import Response

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
SECURITY_HEADERS = (
    ("Content-Security-Policy", "; ".join(f"{name} {value}" for name, value in _POLICY.items())),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
"""What every page is sent with: it runs only the scripts of this package, and no site may frame it."""

_PAGE_HEADERS = (
    ("Content-Type", "text/html; charset=utf-8"),
    # What a page shows depends on who asks, and is out of date with the next poll.
    ("Cache-Control", "private, no-cache"),
    # A part of the page for htmx, or all of it for the rest.
    ("Vary", "HX-Request"),
)


def page_response(body: bytes, status: int = 200) -> Response:
    """Return a page, or a part of one, with the headers that keep it safe."""
    return Response(status, body, (*_PAGE_HEADERS, *SECURITY_HEADERS))
