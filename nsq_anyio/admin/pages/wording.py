"""Texts about actions, their effects and their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..actions import Action, Command
from ..api.cluster_info import ServerResult
from .effects import Effects

_DONE: dict[Action, str] = {
    "create": "created",
    "delete": "deleted",
    "empty": "emptied",
    "pause": "paused",
    "unpause": "unpaused",
    "tombstone": "tombstoned",
}
_LOOKUP_DONE: dict[Action, str] = {"create": "registered", "delete": "forgotten", "tombstone": "hidden"}

REFUSALS = {
    "FORBIDDEN": "Only administrators may do this. Ask one of them, or the operator of this page.",
    "READ_ONLY": "This dashboard is read-only: nobody can change anything here.",
    "CROSS_SITE_REQUEST": (
        "This request did not come from a page of this dashboard, so nothing was done. Reload the page and"
        " try again. If that does not help, the proxy in front of it must pass the header Host on unchanged."
    ),
    "BODY_TOO_BIG": "The form is too large, so nothing was done.",
    "INVALID_FORM": "The form cannot be read, so nothing was done. Reload the page and try again.",
}
"""Explanations of refusals, by code."""

UNKNOWN_NODE = "No nsqlookupd names this nsqd any more, so it is not asked. Look at the list of nodes."
NOBODY_HAS_IT = "No server has this topic any more, so there is nothing to do."
NOBODY_KNOWS = "No server says which nsqds have the topic, so nothing can be done. Try again later."


def subject(command: Command) -> str:
    """Return the subject of an action, such as ``channel archive of topic clicks``."""
    return (
        f"channel {command.channel} of topic {command.topic}" if command.channel else f"topic {command.topic}"
    )


def button(command: Command) -> str:
    """Return the label of the action's button."""
    kind = "channel" if command.channel else "topic"
    return f"{command.action.capitalize()} {kind}"


def heading(command: Command) -> str:
    """Return the question that the dialog asks."""
    where = f" on {command.node}" if command.node else ""
    return f"{command.action.capitalize()} {subject(command)}{where}?"


def not_done_yet(effects: Effects, typed: str, messages: int) -> str:
    """Return why an action was not done yet.

    :param messages: how many messages would have been lost when the dialog was shown
    """
    name = effects.name_to_type
    if typed and typed != name:
        return f"What you typed is not {name}, so nothing was done."
    if effects.messages > messages and typed:
        now = "1 message" if effects.messages == 1 else f"{effects.messages:,} messages"
        return f"{now} would be lost now, and {messages:,} when you were asked. Nothing was done yet."
    if typed or not name:
        return "More would be lost now than when you were asked. Nothing was done yet."
    return f"There is something to lose. Type {name} to confirm; nothing was done yet."


def creation(*, has_nsqlookupds: bool) -> str:
    """Return what it means to create a topic or channel, in whole sentences."""
    if not has_nsqlookupds:
        return "All nsqds create it."
    return (
        "The nsqlookupds register it, so that consumers find it as soon as an nsqd has it. An nsqd creates"
        " the topic when somebody first publishes to it there, and the channel at once if it has the topic."
    )


def explanation(effects: Effects) -> Sequence[str]:
    """Return what the action does, in whole sentences. Creation has a dialog of its own."""
    return (*_EXPLANATIONS[effects.command.action](effects), *_silent(effects))


def _silent(effects: Effects) -> Iterator[str]:
    """Yield what becomes of the topic or channel on nsqds that are down."""
    down = [each.name for each in effects.nsqds if each.had_it and each.error]
    if not down:
        return
    one, kind = len(down) == 1, "channel" if effects.command.channel else "topic"
    does, answers = ("does not answer", "it answers") if one else ("do not answer", "they answer")
    yield f"{_names(down)} {does} now, and had the {kind} before."
    if effects.command.deletes:
        yield f"The {kind} comes back from there, with its messages: repeat this once {answers}."
    else:
        yield f"Nothing changes there: repeat this once {answers}."


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _delete(effects: Effects) -> Iterator[str]:
    if effects.command.channel:
        yield "The channel is deleted on each nsqd, with its messages. Its consumers are disconnected."
        yield "A consumer that connects again creates it again, without its former messages."
        return
    yield "The topic is deleted on each nsqd, with its channels and all their messages."
    yield "Its consumers are disconnected."
    yield from _made_again(effects)


def _empty(effects: Effects) -> Iterator[str]:
    if effects.command.channel:
        yield "All messages of the channel are dropped, also those in flight and those that are deferred."
        yield "Consumers stay connected; what they still answer of these messages is refused."
        yield "Other channels keep their messages."
    else:
        yield "The messages that no channel has taken yet are dropped. Channels keep what they have."


def _pause(effects: Effects) -> Iterator[str]:
    if effects.command.channel:
        yield "Consumers get no more messages from this channel until it is unpaused."
        yield "Messages wait meanwhile; those in flight can still be answered. Other channels go on."
    else:
        yield "No channel gets messages from this topic until it is unpaused. They wait in the topic."
        yield "Channels go on with what they have."
    yield "Where an nsqd creates it later, it is not paused."


def _unpause(effects: Effects) -> Iterator[str]:
    if effects.command.channel:
        yield "Consumers get messages from this channel again."
    else:
        yield "Channels get messages from this topic again."


def _tombstone(effects: Effects) -> Iterator[str]:
    node = effects.command.node
    if effects.nsqlookupds:
        yield f"The nsqlookupds hide {node} from whoever looks the topic up, for 45 seconds by default."
    yield f"{node} deletes the topic, with its channels and messages, and disconnects their consumers."
    yield "The topic stays on all other nsqds."
    yield "Do this once nobody publishes the topic to this nsqd any more."
    yield from _made_again(effects)


def _made_again(effects: Effects) -> Iterator[str]:
    count = effects.total.publishers
    if count:
        clients = "1 connected client has" if count == 1 else f"{count:,} connected clients have"
        yield f"{clients} published to it, and will create it again, empty, with the next message."
    else:
        yield "Whoever publishes to it later creates it again, empty."
    if effects.total.consumers:
        yield "Consumers that connect again create it again as well."


_EXPLANATIONS = {
    "delete": _delete,
    "empty": _empty,
    "pause": _pause,
    "unpause": _unpause,
    "tombstone": _tombstone,
}


def said(command: Command, result: ServerResult) -> str:
    """Return the result of an action on one server, in words."""
    if result.state == "done":
        if result.kind == "nsqlookupd":
            return _LOOKUP_DONE.get(command.action, _DONE[command.action])
        return "deleted" if command.action == "tombstone" else _DONE[command.action]
    if result.state == "absent":
        kind = "channel" if command.channel else "topic"
        later = ", so one that is created there later is not paused" if command.action == "pause" else ""
        return f"does not have the {kind}{later}"
    return " ".join(result.reasons)


def summary(command: Command, found: Sequence[ServerResult]) -> str:
    """Return the result of an action on all servers, in a sentence."""
    done = sum(each.state == "done" for each in found)
    failed = sum(each.state == "failed" for each in found)
    what = subject(command)
    begun = f"{what[0].upper()}{what[1:]} was {_DONE[command.action]}"
    if done and failed:
        return f"{begun} in part only: {failed:,} of {_servers(len(found))} failed."
    if done:
        return f"{begun}."
    if failed:
        return f"Nothing is known to have been done: {_servers(failed)} failed."
    return f"Nothing was done: no server has {what}."


def remedy(command: Command, found: Sequence[ServerResult]) -> str:
    """Return what to do about the servers that failed, in whole sentences; empty if none did."""
    failed = [each.server for each in found if each.state == "failed"]
    if not failed:
        return ""
    what = f"It may not have been {_DONE[command.action]} on {_names(failed)}."
    if command.action == "delete" and any(each.kind == "nsqd" and each.state == "failed" for each in found):
        what += f" What an nsqd still has of {subject(command)} stays there."
    return f"{what} Repeat this once the cause is gone."


def _servers(count: int) -> str:
    return "1 server" if count == 1 else f"{count:,} servers"
