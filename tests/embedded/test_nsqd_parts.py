"""The parts of the embedded nsqd that decide: timers, ids, channels on a clock of the test, options."""

import math
import random
from typing import Any
from weakref import WeakSet

import pytest

from nsq_anyio.embedded import NsqdOptions
from nsq_anyio.embedded.nsqd.channel import Channel, Subscription
from nsq_anyio.embedded.nsqd.output import Output
from nsq_anyio.embedded.nsqd.scheduler import CallbackTimer, Scheduler, Timer, Timers
from nsq_anyio.embedded.nsqd.topic import MessageIds
from nsq_anyio.errors import InvalidOption

pytestmark = pytest.mark.anyio


class Recorder(Timer):
    def __init__(self, name: str, fired: list[str]) -> None:
        super().__init__()
        self.name = name
        self.fired = fired

    def fire(self, _now: float, /) -> None:
        self.fired.append(self.name)


def test_timers_fire_in_order_and_once() -> None:
    fired: list[str] = []
    timers = Timers()
    for name, deadline in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 4.0)):
        timers.set(Recorder(name, fired), deadline)
    assert (timers.next_deadline, len(timers)) == (1.0, 4)
    timers.fire_due(0.9)
    assert fired == []
    timers.fire_due(3.0)
    assert fired == ["a", "b", "c"]
    timers.fire_due(10.0)
    assert fired == ["a", "b", "c", "d"]
    assert (timers.next_deadline, len(timers)) == (math.inf, 0)


def test_a_timer_set_again_fires_at_the_last_deadline_alone() -> None:
    fired: list[str] = []
    timers = Timers()
    timer = Recorder("a", fired)
    timers.set(timer, 1.0)
    timers.set(timer, 5.0)
    timers.fire_due(4.0)
    assert fired == []
    timers.set(timer, 4.5)
    timers.fire_due(9.0)
    assert fired == ["a"]


def test_a_firing_timer_may_set_and_cancel_timers() -> None:
    fired: list[str] = []
    timers = Timers()
    victim = Recorder("victim", fired)

    def act(now: float) -> None:
        timers.cancel(victim)
        timers.set(Recorder("late", fired), now + 1)

    timers.set(CallbackTimer(act), 1.0)
    timers.set(victim, 1.0)
    timers.fire_due(1.0)
    assert fired == []
    timers.fire_due(2.0)
    assert fired == ["late"]
    timers.cancel(victim)
    assert len(timers) == 0


def test_cancelled_timers_do_not_pile_up() -> None:
    fired: list[str] = []
    timers = Timers()
    kept = [Recorder("kept", fired) for _ in range(100)]
    for timer in kept:
        timers.set(timer, 1e9)
    alive: WeakSet[Timer] = WeakSet()
    for i in range(50_000):
        timer = Recorder("cancelled", fired)
        alive.add(timer)
        timers.set(timer, 1e6 + i)
        timers.cancel(timer)
    assert len(timers) == 100
    assert len(alive) < 3000
    timers.fire_due(1e9)
    assert fired == ["kept"] * 100


def test_timers_against_a_model() -> None:
    choice = random.Random(3)
    timers = Timers()
    fired: list[str] = []
    model: dict[str, float] = {}
    everyone = {str(i): Recorder(str(i), fired) for i in range(50)}
    for step in range(5000):
        name = choice.choice(list(everyone))
        if choice.random() < 0.7:
            model[name] = choice.uniform(step, step + 100)
            timers.set(everyone[name], model[name])
        else:
            model.pop(name, None)
            timers.cancel(everyone[name])
        due = sorted((deadline, name) for name, deadline in model.items() if deadline <= step)
        fired.clear()
        timers.fire_due(step)
        assert fired == [name for _, name in due]
        for _, gone in due:
            del model[gone]
        assert timers.next_deadline == min(model.values(), default=math.inf)


def test_ids_grow_whatever_the_clock_does() -> None:
    ids = MessageIds(7)
    moment = 1_700_000_000_000_000_000
    made = [ids.next(moment) for _ in range(10_000)]
    made += [ids.next(moment - 10**12) for _ in range(10)]
    made += [ids.next(moment + 10**12)]
    assert made == sorted(set(made))
    assert all(len(message_id) == 16 for message_id in made)


def test_ids_of_two_nodes_differ() -> None:
    moment = 1_700_000_000_000_000_000
    first, second = MessageIds(1), MessageIds(1026)
    assert not {first.next(moment) for _ in range(5000)} & {second.next(moment) for _ in range(5000)}


def make_channel(**options: Any) -> tuple[Channel, Scheduler, Subscription]:
    """A channel with a subscription; the test does the scheduler's turns, and has its clock."""
    scheduler = Scheduler()
    channel = Channel(
        "t", "c", options=NsqdOptions(**options), scheduler=scheduler, on_abandoned=lambda _: None
    )
    subscription = Subscription(Output(), lambda: None, msg_timeout=60.0, sample_rate=0)
    channel.join(subscription)
    return channel, scheduler, subscription


ID = b"0123456789abcdef"


async def test_touch_extends_to_max_msg_timeout_and_no_further() -> None:
    channel, scheduler, subscription = make_channel(max_msg_timeout=100)
    subscription.rdy = 1
    channel.offer(subscription)
    channel.publish(ID, 0, b"x", 0.0, 1000.0)
    scheduler.turn(1000.0)
    assert scheduler.next_deadline == 1060.0
    channel.touch(subscription, ID, 1030.0)
    assert scheduler.next_deadline == 1090.0
    channel.touch(subscription, ID, 1080.0)
    assert scheduler.next_deadline == 1100.0
    scheduler.turn(1099.0)
    assert (len(channel.in_flight), channel.timeout_count) == (1, 0)
    scheduler.turn(1100.0)
    # It is sent again in the same turn.
    assert (len(channel.in_flight), channel.timeout_count, subscription.message_count) == (1, 1, 2)
    assert scheduler.next_deadline == 1160.0


async def test_a_client_that_cannot_take_messages_after_all_loses_its_turn_only() -> None:
    channel, scheduler, subscription = make_channel()
    subscription.rdy = 1
    channel.offer(subscription)
    channel.publish(ID, 0, b"x", 0.0, 0.0)
    subscription.rdy = 0
    scheduler.turn(0.0)
    assert (channel.depth, subscription.is_queued) == (1, False)
    subscription.rdy = 1
    channel.offer(subscription)
    scheduler.turn(0.0)
    assert (channel.depth, subscription.in_flight) == (0, 1)


async def test_counts_at_every_step() -> None:
    channel, scheduler, subscription = make_channel()
    subscription.rdy = 2
    channel.offer(subscription)
    for i in range(5):
        channel.publish(b"%016d" % i, 0, b"x", 3.0 if i == 4 else 0.0, 0.0)
    scheduler.turn(0.0)
    assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (2, 2, 1)
    assert channel.finish(subscription, [b"%016d" % 0]) == []
    channel.requeue(subscription, b"%016d" % 1, until=5.0)
    assert subscription.in_flight == 0
    scheduler.turn(1.0)
    assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (0, 2, 2)
    scheduler.turn(5.0)
    assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (2, 2, 0)
    assert (channel.message_count, channel.requeue_count, channel.timeout_count) == (5, 1, 0)
    assert (subscription.finish_count, subscription.requeue_count, subscription.message_count) == (1, 1, 4)
    assert repr(channel) == "<Channel t:c depth=2 in_flight=2 deferred=0 clients=1>"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("msg_timeout", 0),
        ("msg_timeout", 901),
        ("max_msg_timeout", math.inf),
        ("max_req_timeout", -1),
        ("max_rdy_count", 0),
        ("max_rdy_count", 2.5),
        ("max_msg_size", 0),
        ("max_body_size", 15),
        ("mem_queue_size", -1),
        ("client_timeout", "60"),
        ("max_heartbeat_interval", 0),
        ("output_buffer_timeout", -0.1),
        ("min_output_buffer_timeout", True),
        ("max_output_buffer_timeout", math.nan),
        ("max_output_buffer_size", 63),
        ("max_deflate_level", 10),
        ("max_channel_consumers", -1),
    ],
)
def test_options_are_checked(option: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=f"^{option}="):
        NsqdOptions(**{option: value})  # type: ignore[arg-type]
