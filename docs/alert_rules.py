"""The alert rules for the metrics of a cluster; ``generate.py`` writes them into prometheus-alerts.yml.

`nsq_anyio.monitoring.health.ALERTS` names the alerts of each kind of problem. Both judge by the same limits, but an
alert waits until its condition has held for some time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from nsq_anyio.monitoring.health import (
    _FEWEST_REQUEUES,
    _FEWEST_TIMEOUTS,
    _FULL,
    _LEAST_GROWTH,
    _LEAST_SHARE,
    _LONG,
    _SHORT,
)

HEAD = """\
# Alerts for the metrics of `nsq-anyio exporter`, and for those of `nsq-anyio admin`. Copy what you need, and set the \
limits to what is normal for you. `python docs/generate.py` writes this file.
"""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """An alert.

    :ivar expr: the condition in PromQL; a line of its own for each part
    :ivar lasting: how long it must hold, such as ``5m``; empty if it need not last
    """

    name: str
    expr: str
    severity: str
    summary: str
    description: str
    lasting: str = ""
    comment: str = ""

    def text(self) -> str:
        lines = self.expr.strip().splitlines()
        return "\n".join(
            [
                *([f"      # {self.comment}"] if self.comment else []),
                f"      - alert: {self.name}",
                *(
                    [f"        expr: {lines[0]}"]
                    if len(lines) == 1
                    else ["        expr: >-", *(f"          {line}" for line in lines)]
                ),
                *([f"        for: {self.lasting}"] if self.lasting else []),
                "        labels:",
                f"          severity: {self.severity}",
                "        annotations:",
                f"          summary: {json.dumps(self.summary)}",
                f"          description: {json.dumps(self.description)}",
            ]
        )


def duration(seconds: float) -> str:
    """Return a time as PromQL writes it."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


WINDOW = duration(_SHORT)
CHANNEL = "{{ $labels.topic }}/{{ $labels.channel }}"
COUNT = "{{ $value | humanize }}"


SERVERS = (
    Rule(
        name="NsqdDown",
        comment="This includes nsqds that the exporter has forgotten, for a day. Where nsqds come and go on purpose, keep only "
        "the first line.",
        expr="""
(min by (nsqd) (nsq_nsqd_up) == 0)
or (
  (max by (nsqd) (last_over_time(nsq_nsqd_up[1d])) == 0)
  unless on (nsqd) (last_over_time(nsq_nsqd_info[1d]) and on (url) (nsq_nsqd_info))
)
""",
        lasting="2m",
        severity="critical",
        summary="nsqd {{ $labels.nsqd }} does not answer",
        description="Its messages wait until it is back: start it again. Producers use other nsqds, if they know any. "
        "If it was removed on purpose, silence this alert.",
    ),
    Rule(
        name="NsqdUnhealthy",
        expr="nsq_nsqd_healthy == 0",
        lasting="1m",
        severity="critical",
        summary="nsqd {{ $labels.nsqd }} says that it is not healthy",
        description="nsqd says so when it cannot write to its disk; ask its /ping for the reason.",
    ),
    Rule(
        name="NsqdRestarted",
        expr="changes(nsq_nsqd_start_time_seconds[15m]) > 0",
        severity="info",
        summary="nsqd {{ $labels.nsqd }} has restarted",
        description="If it did not stop in good order, the messages that it had in memory are lost.",
    ),
    Rule(
        name="NsqlookupdDown",
        expr="nsq_nsqlookupd_up == 0",
        lasting="2m",
        severity="critical",
        summary="nsqlookupd {{ $labels.nsqlookupd }} does not answer",
        description="Start it again. Until then, consumers and producers that ask only this one find no new nsqds.",
    ),
    Rule(
        name="NsqdUnusable",
        expr="nsq_nsqlookupd_unusable_nsqds > 0",
        lasting="5m",
        severity="warning",
        summary="{{ $value | humanize }} nsqds have registered no usable address at nsqlookupd {{ $labels.nsqlookupd }}",
        description="Nothing is known of their messages: set their --broadcast-address and --http-address.",
    ),
    Rule(
        name="NsqdNotRegistered",
        expr="(nsq_nsqd_registered == 0) and on (instance, job, nsqd) (nsq_nsqd_up == 1)",
        lasting="5m",
        severity="warning",
        summary="nsqlookupd {{ $labels.nsqlookupd }} does not know nsqd {{ $labels.nsqd }}",
        description="Consumers that ask only this nsqlookupd do not get the messages of this nsqd. Check the "
        "--lookupd-tcp-address of the nsqd, and that it can reach the nsqlookupd.",
    ),
    Rule(
        name="NsqTopicsNotRegistered",
        expr="(nsq_nsqd_unregistered_topics > 0) "
        "and on (instance, job, nsqd, nsqlookupd) (nsq_nsqd_registered == 1)",
        lasting="5m",
        severity="warning",
        summary="nsqlookupd {{ $labels.nsqlookupd }} misses {{ $value }} topics of nsqd {{ $labels.nsqd }}",
        description="Consumers of these topics do not find this nsqd there. A topic that stays missing is registered again when the nsqd "
        "restarts.",
    ),
)

_UNANSWERED = 180.0
"""Long enough for several scrapes."""

STILL = duration(_UNANSWERED)
STILL_FOR = duration(_SHORT - _UNANSWERED)


SERVED = """\
and (sum by (topic, channel) (nsq_channel_clients) > 0)
unless (sum by (topic, channel) (nsq_channel_paused) > 0)"""
"""Consumers are there, and nothing keeps messages from them."""


def grows(seconds: float) -> str:
    """Return the condition of a depth that grows from third to third of a time, by enough."""
    third = duration(seconds / 3)
    depth = 'nsq_channel_depth_messages{channel!="dead-letter"}'
    means = [
        f"sum by (topic, channel) (avg_over_time({depth}[{third}]{offset}))"
        for offset in ("", f" offset {third}", f" offset {duration(2 * seconds / 3)}")
    ]
    growth = f"sum by (topic, channel) (delta({depth}[{duration(seconds)}]))"
    return f"""
({growth} >= {_LEAST_GROWTH})
and ({growth} >= {_LEAST_SHARE} * sum by (topic, channel) ({depth}))
and ({means[0]} > {means[1]})
and ({means[1]} > {means[2]})
{SERVED}
"""


CHANNELS = (
    Rule(
        name="NsqChannelWithoutConsumers",
        expr="""
(sum by (topic, channel) (
  nsq_channel_depth_messages{channel!="dead-letter"} + nsq_channel_deferred_messages unless nsq_channel_paused == 1
) > 0)
and (sum by (topic, channel) (nsq_channel_clients) == 0)
""",
        lasting="5m",
        severity="warning",
        summary=f"{COUNT} messages wait in {CHANNEL}, and nobody consumes them",
        description="Start its consumers. If the channel is no longer needed, delete it: its depth grows until the "
        "disk is full.",
    ),
    Rule(
        name="NsqNsqdWithoutConsumers",
        expr="""
(max by (topic, channel, nsqd) (
  (nsq_channel_depth_messages{channel!="dead-letter"} > 0) and (nsq_channel_clients == 0) unless nsq_channel_paused == 1
))
and on (topic, channel) (sum by (topic, channel) (nsq_channel_clients) > 0)
""",
        lasting="5m",
        severity="warning",
        summary=f"{COUNT} messages wait in {CHANNEL} on nsqd {{{{ $labels.nsqd }}}}, which no consumer is connected to",
        description="Consumers are connected to other nsqds: let them look at an nsqlookupd that knows this one, and "
        "check that they can reach its address.",
    ),
    Rule(
        name="NsqChannelStalled",
        expr=f"""
(sum by (topic, channel) (
  nsq_channel_depth_messages and (nsq_channel_clients > 0) unless nsq_channel_paused == 1
) > 0)
and (sum by (topic, channel) (increase(nsq_channel_messages_finished_total[{STILL}])) == 0)
""",
        lasting=STILL_FOR,
        severity="critical",
        summary=f"{COUNT} messages wait in {CHANNEL}, and its consumers have finished none for {_SHORT / 60:.0f} minutes",
        description="If messages are in flight, consumers hang: look at their handlers, or restart them. If none is, "
        "their RDY count is 0: they back off or have paused; their logs say why.",
    ),
    Rule(
        name="NsqNsqdStalled",
        expr=f"""
(max by (topic, channel, nsqd) (
  (nsq_channel_depth_messages > 0)
  and (increase(nsq_channel_messages_finished_total[{STILL}]) == 0)
  and (nsq_channel_clients > 0)
  unless nsq_channel_paused == 1
))
and on (topic, channel) (sum by (topic, channel) (increase(nsq_channel_messages_finished_total[{STILL}])) > 0)
""",
        lasting=STILL_FOR,
        severity="warning",
        summary=f"{COUNT} messages wait in {CHANNEL} on nsqd {{{{ $labels.nsqd }}}}, whose consumers have finished none "
        f"for {_SHORT / 60:.0f} minutes",
        description="Elsewhere the channel moves. If messages are in flight there, a consumer hangs: restart it. If none "
        "is, its RDY count is 0 there: it may hold fewer messages than it has connections; raise its max_in_flight.",
    ),
    Rule(
        name="NsqChannelUnanswered",
        expr=f"""
(sum by (topic, channel) (nsq_channel_in_flight_messages) > 0)
and (sum by (topic, channel) (nsq_channel_depth_messages) == 0)
and (sum by (topic, channel) (
  increase(nsq_channel_messages_finished_total[{STILL}])
  + increase(nsq_channel_messages_requeued_total[{STILL}])
  + increase(nsq_channel_messages_timed_out_total[{STILL}])
) == 0)
""",
        lasting=STILL_FOR,
        severity="info",
        summary=f"Consumers of {CHANNEL} hold {COUNT} messages, and have answered none for {_SHORT / 60:.0f} minutes",
        description="Their handlers work long, or hang. If they hang, restart them: nsqd delivers the messages again.",
    ),
    Rule(
        name="NsqChannelOverflows",
        expr=f"""
sum by (topic, channel) (
  (min_over_time(nsq_channel_depth_messages{{channel=~".+#ephemeral"}}[{WINDOW}])
    >= {_FULL} * max_over_time(nsq_channel_depth_messages[{WINDOW}]))
  and (max_over_time(nsq_channel_depth_messages[{WINDOW}]) >= {_LEAST_GROWTH})
  and (increase(nsq_channel_messages_total[{WINDOW}]) > 0)
)
""",
        lasting="2m",
        severity="warning",
        summary=f"{CHANNEL} is full with {COUNT} messages, and nsqd drops others",
        description="nsqd keeps an ephemeral channel in memory alone. Add consumers, or use a channel that is not "
        "ephemeral.",
    ),
    Rule(
        name="NsqDeadLetters",
        comment='The topics that dead_letter="{topic}.dead" makes, and the channel that `nsq-anyio dead-letter` '
        "leaves there.",
        expr="""
(sum by (topic) (nsq_channel_depth_messages{channel="dead-letter"}) > 0)
or (sum by (topic) (nsq_topic_depth_messages{topic=~".+[.]dead"}) > 0)
""",
        lasting="5m",
        severity="warning",
        summary="{{ $value }} messages are in {{ $labels.topic }}, because no handler could process them",
        description="`nsq-anyio dead-letter list --topic {{ $labels.topic }}` shows them, and why; then retry or drop "
        "them.",
    ),
    Rule(
        name="NsqChannelBacklogGrows",
        expr=grows(_SHORT),
        lasting="10m",
        severity="warning",
        summary=f"The depth of {CHANNEL} has grown by {COUNT} messages in {_SHORT / 60:.0f} minutes",
        description="Its consumers are slower than its producers: add consumers, or raise their max_in_flight.",
    ),
    Rule(
        name="NsqChannelBacklogGrowsSlowly",
        expr=grows(_LONG),
        lasting="5m",
        severity="warning",
        summary=f"The depth of {CHANNEL} has grown by {COUNT} messages in {_LONG / 60:.0f} minutes",
        description="Its consumers are a little slower than its producers: add consumers, or raise their "
        "max_in_flight.",
    ),
    Rule(
        name="NsqChannelRequeues",
        expr="sum by (topic, channel) (increase(nsq_channel_messages_requeued_total"
        f"[{WINDOW}])) >= {_FEWEST_REQUEUES}",
        lasting=WINDOW,
        severity="info",
        summary=f"Consumers of {CHANNEL} have requeued {COUNT} messages in {_SHORT / 60:.0f} minutes",
        description="Handlers fail, perhaps for the same message again and again: see the logs of the consumers. "
        "max_attempts and dead_letter take such a message away.",
    ),
    Rule(
        name="NsqChannelFails",
        expr=f"""
(sum by (topic, channel) (increase(nsq_channel_messages_requeued_total[{WINDOW}]))
  > 0.1 * sum by (topic, channel) (increase(nsq_channel_messages_finished_total[{WINDOW}])))
and (sum by (topic, channel) (increase(nsq_channel_messages_requeued_total[{WINDOW}])) >= {_FEWEST_REQUEUES})
""",
        lasting=WINDOW,
        severity="warning",
        summary=f"Consumers of {CHANNEL} have requeued {COUNT} messages in {_SHORT / 60:.0f} minutes",
        description="That is more than a tenth of what they finish: handlers fail; see the logs of the consumers.",
    ),
    Rule(
        name="NsqChannelTimeouts",
        expr="sum by (topic, channel) (increase(nsq_channel_messages_timed_out_total"
        f"[{WINDOW}])) >= {_FEWEST_TIMEOUTS}",
        lasting=WINDOW,
        severity="warning",
        summary=f"{COUNT} messages of {CHANNEL} have timed out in {_SHORT / 60:.0f} minutes",
        description="Handlers take longer than the message timeout, hang, or vanish; others get these messages again. "
        "Raise msg_timeout, touch messages, or mend the handlers.",
    ),
    Rule(
        name="NsqTopicPaused",
        expr="sum by (topic) (nsq_topic_depth_messages and nsq_topic_paused == 1) > 0",
        lasting="15m",
        severity="warning",
        summary=f"Topic {{{{ $labels.topic }}}} is paused, and {COUNT} messages wait in it",
        description="Unpause it, or its depth grows until the disk is full.",
    ),
    Rule(
        name="NsqChannelPaused",
        expr="sum by (topic, channel) (nsq_channel_depth_messages and nsq_channel_paused == 1) > 0",
        lasting="15m",
        severity="warning",
        summary=f"{CHANNEL} is paused on one nsqd or more, where {COUNT} messages wait",
        description="Unpause it, or its depth grows until the disk is full.",
    ),
    Rule(
        name="NsqTopicWithoutChannels",
        expr="""
(sum by (topic) (nsq_topic_channels{topic!~".+[.]dead"}) == 0)
and (sum by (topic) (nsq_topic_depth_messages) > 0)
""",
        lasting="1h",
        severity="info",
        summary="Topic {{ $labels.topic }} has messages and no channel",
        description="Its messages wait until somebody creates a channel.",
    ),
    Rule(
        name="NsqTopicTombstoned",
        expr=f"max by (topic, nsqd) (max_over_time(nsq_topic_tombstoned_messages[{WINDOW}])) > 0",
        severity="warning",
        summary=f"Topic {{{{ $labels.topic }}}} is tombstoned on nsqd {{{{ $labels.nsqd }}}}, where {COUNT} messages wait",
        description="Consumers do not find it there, and lose what waits if it is deleted: wait until nsqlookupd drops "
        "the tombstone, by default after 45 seconds, and let them consume it first.",
    ),
    Rule(
        name="NsqChannelMissing",
        expr="""
count by (topic) (nsq_topic_channels) - on (topic) group_right ()
count by (topic, channel) (nsq_channel_clients{channel!~"dead-letter|.+#ephemeral"}) > 0
""",
        lasting="15m",
        severity="info",
        summary=f"{COUNT} nsqds have the topic of {CHANNEL}, and not the channel",
        description="The channel gets no messages from them: create it there, or connect consumers.",
    ),
)

EXPORTER = (
    Rule(
        name="NsqExporterStale",
        expr="time() - nsq_exporter_survey_time_seconds > 120",
        severity="warning",
        summary="The metrics of NSQ are {{ $value | humanizeDuration }} old",
        description="The exporter does not get through its polls: give it more CPU, or leave topics out. If its --interval is "
        "longer than a minute, raise this limit.",
    ),
    Rule(
        name="NsqExporterAbsent",
        expr="absent(nsq_exporter_survey_time_seconds)",
        lasting="5m",
        severity="warning",
        summary="There are no metrics of NSQ",
        description="The exporter is down, or Prometheus does not scrape it.",
    ),
    Rule(
        name="NsqExporterLeavesOut",
        expr="nsq_exporter_left_out_channels > 0",
        severity="info",
        summary="{{ $value }} topics and channels of NSQ have no metrics",
        description="Raise --max-channels, or use --sum-nsqds, --topic-pattern or --no-ephemeral.",
    ),
)

GROUPS = {"nsq-servers": SERVERS, "nsq-channels": CHANNELS, "nsq-exporter": EXPORTER}

NO_PROBLEM = {
    "NsqdRestarted": "an event, and no state; the page of the nsqd says since when it runs",
    "NsqDeadLetters": "the dashboard has a page for them",
    "NsqExporterStale": "about the exporter; pages of the dashboard say how old they are",
    "NsqExporterAbsent": "about the exporter",
    "NsqExporterLeavesOut": "about the exporter",
}
"""The alerts that are for no kind of problem of the dashboard, and why."""


def text() -> str:
    """Return the file."""
    lines = [HEAD + "groups:"]
    for name, rules in GROUPS.items():
        lines += [f"  - name: {name}", "    rules:", *(rule.text() for rule in rules)]
    return "\n".join(lines) + "\n"
