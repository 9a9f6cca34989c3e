"""Messages in the dashboard: a live tail, publishing, and dead letters.

::

    settings     the bounds
    places       which nsqds have a topic, and what a new channel there would take
    json_tree    JSON that can be folded
    content      what is shown of a body
    rows         messages and dead letters as they are shown
    sampling     picks as many messages as a browser can show
    tail_state   what viewers of a tail are given
    copies       copies of the messages of one nsqd, taken from nobody
    tail         the live tail of one topic
    tails        which topics are tailed, and for how long
    publishing   publishes a message from a form
    jobs         lists, retries and drops dead letters
    messages     all of that, for one application
"""
