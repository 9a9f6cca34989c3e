"""The pages of the dashboard, rendered on the server.

::

    pages       which page a path is, and the response
    visit       what a page is given, and what it returns
    rendering   templates, and what they can call
    security    the headers that keep pages safe
    formats     numbers, times and sizes as people read them
    per_view    what is made of a view is made once, for all who ask
    digest      what all pages take from a view
    assets      style sheets, scripts and icons
    listing     search, filters, sorting and pages of tables
    overview    the first page
    topics      ... and the others: `topic`, `channel`, `nodes`, `node`, `lookup`, `counter`
    tail        messages of a topic, live
    publishing  the form that publishes a message
    letters     dead letters
    confirm     what an action would do, before it is done
    acting      does it, and says what came of it
    dialogs     what their dialog shows
    effects     what an action would affect
    wording     actions in words
    forms       orders as forms and queries spell them
    once        a form that is sent twice acts once

A page is a module with an async function from a `Visit` to the values of its template, a template that
extends ``layout`` and fills the block ``live``, and a line in ``PAGES`` of ``pages``.
"""
