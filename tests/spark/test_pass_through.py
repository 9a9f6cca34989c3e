"""Every option of a connection or a producer is one of Spark's, or Spark says what it has in its place."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.options import ConnectionOptions, ProducerOptions, TLSOptions
from nsq_anyio.options.declaration import declared
from nsq_anyio.options.kinds import SAME
from nsq_anyio.spark.options import READ_OPTIONS, WRITE_OPTIONS, read_options, write_options

READ = {"topic": "clicks", "channel": "spark", "nsqd": "127.0.0.1:4150"}
WRITE = {"nsqd": "127.0.0.1:4150"}
NAMES = {option.name for option in (*READ_OPTIONS, *WRITE_OPTIONS)}

# Functions and objects; what is sampled would not be what waits; rows travel together in any case.
NOT_IN_SPARK = {
    *("dialer", "map_address", "ssl_context", "sample_rate", "coalesce", "linger"),
    # Spark looks for nsqds itself, once a task, with options of its own.
    *(name for name in declared(ProducerOptions) if name.startswith("lookupd_")),
}


@pytest.mark.parametrize("options", [ConnectionOptions, ProducerOptions, TLSOptions])
def test_every_option_of_the_client_is_one_of_spark(options: type[object]) -> None:
    prefix = "tls_" if options is TLSOptions else ""
    for name, option in declared(options).items():
        if name not in NOT_IN_SPARK:
            assert option.spark_name(prefix + name) in NAMES, name
        else:
            assert option.spark == "", name


def test_what_is_passed_on_is_not_one_of_spark_s_own() -> None:
    for options in (READ_OPTIONS, WRITE_OPTIONS):
        names = [option.name.lower() for option in options]
        assert len(set(names)) == len(names)
        for option in options:
            if option.part:
                kind = {"connection": ConnectionOptions, "producer": ProducerOptions}[option.part]
                assert declared(kind)[option.field].spark == SAME


def test_options_of_a_connection_reach_it() -> None:
    given = {
        "hostname": "here",
        "userAgent": "agent/1",
        "handshakeTimeout": "1.5",
        "writeTimeout": "2",
        "heartbeatInterval": "15",
        "outputBufferSize": "-1",
        "outputBufferTimeout": "0.1",
        "maxFrameSize": "1000",
        "topologyRegion": "eu",
        "topologyZone": "a",
    }
    for case in (given, {name.lower(): value for name, value in given.items()}):
        options = read_options(READ | case)
        expected = ConnectionOptions(
            hostname="here",
            user_agent="agent/1",
            dial_timeout=10.0,
            handshake_timeout=1.5,
            write_timeout=2.0,
            heartbeat_interval=15.0,
            output_buffer_size=-1,
            output_buffer_timeout=0.1,
            max_frame_size=1000,
            topology_region="eu",
            topology_zone="a",
        )
        assert options.consumer_connection() == expected
        assert pickle.loads(pickle.dumps(options)) == options
        assert hash(options) is not None
        assert write_options(WRITE | case).connection_options() == expected


def test_options_of_a_producer_reach_it() -> None:
    given = {
        "reconnectDelay": "1",
        "maxReconnectDelay": "2",
        "maxOutstandingBytes": "1000",
        "drainTimeout": "3",
        "cancelledDrainTimeout": "0",
    }
    default = write_options(WRITE).producer_options()
    assert write_options(WRITE | given).producer_options() == dataclasses.replace(
        default,
        reconnect_delay=1.0,
        max_reconnect_delay=2.0,
        max_outstanding_bytes=1000,
        drain_timeout=3.0,
        cancelled_drain_timeout=0.0,
    )
    with pytest.raises(InvalidOption, match="option reconnectDelay is not for reading: leave it out"):
        read_options(READ | given)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("heartbeatInterval", "0.5", r"use 1 or more or -1 \(seconds\)"),
        ("heartbeatInterval", "soon", r"use 1 or more or -1 \(seconds\)"),
        ("outputBufferSize", "1", "use a whole number, 64 or more or -1$"),
        ("outputBufferSize", "-1.0", "use a whole number, 64 or more or -1$"),
        ("maxFrameSize", "1", "use a whole number, 64 to 2147483647"),
        ("userAgent", "", "use a non-empty string"),
    ],
)
def test_a_bad_value_is_named_as_spark_has_it(name: str, value: str, allowed: str) -> None:
    with pytest.raises(InvalidOption, match=f"^{name}='{value}' is not valid: {allowed}"):
        read_options(READ | {name: value})


def test_options_that_do_not_go_together_are_found_before_a_task_runs() -> None:
    with pytest.raises(InvalidOption, match=r"max_reconnect_delay=1\.0 is not valid: use 5\.0 or more"):
        write_options(WRITE | {"reconnectDelay": "5", "maxReconnectDelay": "1"})


@pytest.mark.parametrize("name", ["sampleRate", "dialTimeout", "coalesce", "linger", "snappy", "dialer"])
def test_what_spark_has_another_option_for_is_unknown(name: str) -> None:
    with pytest.raises(InvalidOption, match=f"unknown option '{name}'"):
        write_options(WRITE | {name: "1"})
