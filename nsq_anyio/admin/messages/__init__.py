"""Messages in the dashboard: live tails, publishing, and dead letters.

::

    bounds        the bounds
    topic_nodes   the nsqds that have a topic
    content       messages and dead letters as they are shown
    copies        copies of the messages of one nsqd
    tail          the live tails, which sample as many messages as a browser can show
    publishing    publishes a message from a form
    jobs          lists, retries and drops dead letters
    messages      the tails and jobs of one application
"""
