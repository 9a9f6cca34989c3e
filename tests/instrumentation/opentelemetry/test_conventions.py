"""The names, units and buckets are those of the conventions; the package is needed only where it is used."""

import subprocess
import sys
import textwrap

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv._incubating.metrics import messaging_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes

import nsq_anyio as nsq
from nsq_anyio.envelope import encode
from nsq_anyio.instrumentation.opentelemetry import conventions
from nsq_anyio.version import VERSION

from ...fake_nsqd import consuming
from .recorder import Recorder, attributes

ADVISED = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)

GONE = nsq.ProducerOptions(publish_timeout=0.05, connect_timeout=0.05)


def names_in(module: object) -> set[str]:
    return {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}


CONVENTIONAL = names_in(messaging_attributes) | names_in(error_attributes) | names_in(server_attributes)


async def everything(recorder: Recorder) -> None:
    """Record each kind of span and metric."""
    telemetry = recorder.middleware()
    async with (
        consuming(middleware=[telemetry], on_event=telemetry.on_event, max_in_flight=3) as (consumer, peer),
        nsq.produce("127.0.0.1:1", middleware=[telemetry], options=GONE) as producer,
    ):
        with pytest.raises(nsq.NotSent):
            await producer.publish("t", b"body")
        await peer.message(encode(b"body", {"traceparent": f"00-{1:032x}-{1:016x}-01"}))
        async with await anext(telemetry.receiving(consumer)):
            pass
        await peer.messages(b"1", b"2")
        async with await anext(consumer.batches(2)):
            raise nsq.Discard("no")


@pytest.mark.anyio
async def test_the_names_of_attributes() -> None:
    recorder = Recorder()
    await everything(recorder)
    spans = recorder.spans()
    assert {span.name for span in spans} == {"send t", "receive t", "process t", "settle t"}
    used = {name for span in spans for name in attributes(span)}
    used |= {name for metric in recorder.metrics() for told, _ in recorder.points(metric) for name in told}
    assert {name for name in used - CONVENTIONAL if not name.startswith("messaging.nsq.")} == set()
    for span in spans:
        scope = span.instrumentation_scope
        assert scope is not None
        assert (scope.name, scope.version, scope.schema_url) == ("nsq_anyio", VERSION, conventions.SCHEMA_URL)


@pytest.mark.anyio
async def test_the_names_units_and_buckets_of_metrics() -> None:
    recorder = Recorder()
    await everything(recorder)
    metrics = recorder.metrics()
    assert set(metrics) == {
        messaging_metrics.MESSAGING_CLIENT_SENT_MESSAGES,
        messaging_metrics.MESSAGING_CLIENT_CONSUMED_MESSAGES,
        messaging_metrics.MESSAGING_CLIENT_OPERATION_DURATION,
        messaging_metrics.MESSAGING_PROCESS_DURATION,
    }
    for name, metric in metrics.items():
        create = getattr(messaging_metrics, f"create_{name.replace('.', '_')}")
        assert create(Declared()) == {
            "name": name,
            "unit": metric.unit,
            "description": metric.description,
        }
        if name.endswith("duration"):
            for _, point in recorder.points(name):
                assert point.explicit_bounds == ADVISED


class Declared(Meter):
    """Returns what an instrument is declared with."""

    def __init__(self) -> None:
        super().__init__("declared")

    def create_counter(self, **arguments: object) -> object:  # type: ignore[override]
        return arguments

    create_histogram = create_up_down_counter = create_observable_counter = create_counter  # type: ignore[assignment]
    create_observable_gauge = create_observable_up_down_counter = create_counter  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("nsqd", "told"),
    [
        ("nsqd-1:4150", {"server.address": "nsqd-1", "server.port": 4150}),
        ("[::1]:4150", {"server.address": "::1", "server.port": 4150}),
        ("/run/nsqd.sock", {"server.address": "/run/nsqd.sock"}),
    ],
)
def test_the_server(nsqd: str, told: dict[str, object]) -> None:
    assert conventions.server_attributes(nsqd) == told


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=False, capture_output=True, text=True, timeout=30
    )


def test_a_missing_package_is_named_with_the_extra() -> None:
    done = python("""
        import sys
        sys.modules["opentelemetry"] = None
        import nsq_anyio.instrumentation.opentelemetry
    """)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: nsq_anyio.instrumentation.opentelemetry needs OpenTelemetry's API")
    assert last.endswith("pip install 'nsq-anyio[opentelemetry]'")


def test_the_api_alone_is_imported_and_only_here() -> None:
    done = python("""
        import sys
        import nsq_anyio, nsq_anyio.instrumentation
        nsq_anyio.consume, nsq_anyio.produce, nsq_anyio.embedded, nsq_anyio.sync
        print("opentelemetry" in sys.modules)
        import nsq_anyio.instrumentation.opentelemetry
        print(any(name.startswith(("opentelemetry.sdk", "opentelemetry.semconv")) for name in sys.modules))
    """)
    assert (done.stdout, done.stderr) == ("False\nFalse\n", "")
