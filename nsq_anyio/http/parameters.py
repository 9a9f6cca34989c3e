"""The parameters in the query of a request to nsqd or nsqlookupd."""

from __future__ import annotations

from ..names import check_channel, check_topic


def topic_parameters(topic: str) -> dict[str, str]:
    """Return the parameters that name a topic.

    :raises InvalidName: for a name that NSQ would refuse
    """
    return {"topic": check_topic(topic)}


def channel_parameters(topic: str, channel: str) -> dict[str, str]:
    """Return the parameters that name a channel of a topic.

    :raises InvalidName: for a name that NSQ would refuse
    """
    return {"topic": check_topic(topic), "channel": check_channel(channel)}


def stats_parameters(
    format: str, topic: str | None, channel: str | None, include_clients: bool, include_mem: bool
) -> dict[str, str]:
    """Return the parameters of ``/stats``: what to include, and for which topic and channel (None for all).

    :raises InvalidName: for a name that NSQ would refuse
    """
    parameters = {
        "format": format,
        "include_clients": "true" if include_clients else "false",
        "include_mem": "true" if include_mem else "false",
    }
    if topic is not None:
        parameters["topic"] = check_topic(topic)
    if channel is not None:
        parameters["channel"] = check_channel(channel)
    return parameters
