"""What is wrong with the servers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from ..http import NsqdSurvey, Survey
from .problem import Problem, named


def server_problems(survey: Survey) -> Iterator[Problem]:
    """Yield what is wrong with each server, and with what nsqlookupds know of nsqds."""
    for each in survey.nsqlookupds:
        if each.error:
            text = f"This nsqlookupd does not answer: {each.error}."
            yield Problem(kind="nsqlookupd_down", is_bad=True, server=each.url, text=text, weight=2)
        for reason in each.unusable:
            text = f"An nsqd registered there cannot be asked: {reason}."
            yield Problem(kind="unusable", server=each.url, text=text)
    for nsqd in survey.nsqds:
        yield from _of_nsqd(survey, nsqd)


def _of_nsqd(survey: Survey, nsqd: NsqdSurvey) -> Iterator[Problem]:
    url = nsqd.node.url
    if nsqd.error:
        text = f"This nsqd does not answer: {nsqd.error}. No figure includes its messages."
        yield Problem(kind="nsqd_down", is_bad=True, server=url, text=text, weight=1)
        return
    if nsqd.stats.health not in ("", "OK"):
        yield Problem(kind="unhealthy", is_bad=True, server=url, text=f"It reports: {nsqd.stats.health}.")
    answered = [each for each in survey.nsqlookupds if not each.error]
    entries = {each.url: node for each in answered for node in each.nodes if node.url == url}
    missing = [each.url for each in answered if each.url not in entries]
    if missing and len(missing) == len(answered):
        text = "No nsqlookupd knows it, so consumers do not find it."
        yield Problem(kind="not_registered", is_bad=True, server=url, text=text)
    elif missing:
        do = "does" if len(missing) == 1 else "do"
        text = f"{named(missing)} {do} not know it, so consumers that ask there alone miss it."
        yield Problem(kind="not_registered", server=url, text=text)
    topics = {topic.topic_name for topic in nsqd.stats.topics}
    for lookup, node in entries.items():
        unlisted = sorted(topics.difference(node.topics))
        if unlisted:
            text = f"{lookup} does not list {named(unlisted)} for it, so consumers do not find it there."
            yield Problem(kind="topic_not_registered", server=url, text=text, weight=len(unlisted))
