"""The pages of the dashboard, rendered on the server.

::

    pages       which page a path is, and the response
    visit       what a page is given, and what it returns
    rendering   templates, and what they can call
    security    the headers that keep pages safe
    formats     numbers, times and sizes as people read them
    rendered    each page is rendered once for each view
    assets      style sheets, scripts and icons
    overview    the first page
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
