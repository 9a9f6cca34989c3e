"""The pages of the dashboard, rendered on the server.

::

    pages           routes of pages and other endpoints, and the rendering
    request         the `PageRequest` of a page, and the `Context` of all pages
    tables          the rows of a snapshot, with measures and problems
    rendering       templates, static files, and the headers of pages
    formats         numbers, times and sizes: the filters of templates
    charts          small line charts
    listing         search, filters, sorting and pages of tables
    overview        the overview and the counter
    topics          the topics, a topic, a channel
    nodes           the nsqds, and one of them
    lookup          the nsqlookupds
    tail            a live tail
    letters         dead letters
    publishing      the form that publishes a message
    message_access  access to the pages of messages
    actions         the dialog of actions, with `effects`, `wording` and `forms`

A page is a module with an async function from a `PageRequest` to the values of its template, a template that
extends ``layout`` and fills the block ``live``, and a line in ``PAGES`` of ``pages``. Anything else, such as
an action, is an `Endpoint` and a line in ``ENDPOINTS``. A keyboard shortcut is in ``static/keyboard.js`` and
in ``_help.html``.

``layout`` is ``base.html``, or ``fragment.html`` for htmx, which asks for the part that a poll replaces. The
browser morphs that part; elements with ``data-keep`` stay. ``static/live.js`` joins the stream of events and
triggers ``poll``, on which that part and the charts reload. Scripts take the query from the browser's address
bar, because the search field outlives polls.
"""
