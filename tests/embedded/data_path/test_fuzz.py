"""Damage of all kinds to the files of a data path: nothing crashes, and only what is damaged is lost."""

import logging
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsq_anyio.embedded.data_path.deferred_file import Delay, delays_path, read_delays, write_delays
from nsq_anyio.embedded.data_path.disk_queue import DiskQueue, QueueLimits
from nsq_anyio.embedded.data_path.topic_list import StoredTopic, format_topics, load_topics, topics_path

from .test_disk_queue import Stored

LIMITS = QueueLimits(max_bytes_per_file=300, max_size=26 + 60)
PER_FILE, FILES = 8, 4

Damage = Callable[[bytes], bytes]


@st.composite
def damages(draw: st.DrawFn) -> Damage:
    """A file that is truncated, has other bits or bytes, or is another one altogether."""
    kind = draw(st.sampled_from(["truncate", "flip", "insert", "overwrite", "foreign", "append"]))
    where = draw(st.floats(0, 1))
    some = draw(st.binary(min_size=1, max_size=60))
    bit = draw(st.integers(0, 7))

    def damage(data: bytes) -> bytes:
        at = int(where * len(data))
        match kind:
            case "truncate":
                return data[:at]
            case "flip":
                at = min(at, len(data) - 1)
                return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            case "insert":
                return data[:at] + some + data[at:]
            case "overwrite":
                return data[:at] + some + data[at + len(some) :]
            case "append":
                return data + some
            case _:
                return some

    return damage


def bodies_of(number: int) -> list[bytes]:
    return [b"%03d" % (number * PER_FILE + index) + b"x" * 4 for index in range(PER_FILE)]


EVERYTHING = [body for number in range(FILES) for body in bodies_of(number)]


def fill(directory: Path, read: int) -> None:
    queue = DiskQueue(directory, "t", LIMITS)
    for number in range(FILES):
        assert queue.append([Stored(body) for body in bodies_of(number)]).error is None
    queue.read(read, 2**30)
    queue.close()


def drain(directory: Path) -> list[bytes]:
    queue = DiskQueue(directory, "t", LIMITS)
    assert queue.append([Stored(b"after")]).error is None
    found = [record.body for record in queue.read(10**6, 2**30)]
    assert queue.depth == 0
    queue.close()
    again = DiskQueue(directory, "t", LIMITS)
    assert again.read(1, 1) == []
    again.close()
    return found


@pytest.fixture(autouse=True)
def quiet() -> Generator[None]:
    """Thousands of warnings would take longer than the tests."""
    logger = logging.getLogger("nsq_anyio.embedded.data_path")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


fuzz = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@fuzz
@given(damages(), st.integers(0, FILES - 1))
def test_a_damaged_file_of_messages(damage: Damage, number: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fill(directory, 0)
        path = directory / f"t.diskqueue.{number:06d}.dat"
        before = path.read_bytes()
        path.write_bytes(damage(before))
        found = drain(directory)
        undamaged = [body for other in range(FILES) if other != number for body in bodies_of(other)]
        in_order = iter(found)
        assert all(body in in_order for body in undamaged)
        assert found[-1] == b"after"


@fuzz
@given(damages(), st.integers(0, PER_FILE * FILES))
def test_damaged_metadata(damage: Damage, read: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fill(directory, read)
        path = directory / "t.diskqueue.meta.dat"
        path.write_bytes(damage(path.read_bytes()))
        found = drain(directory)
        assert found[-1] == b"after"
        # Numbers that only look right can name another message. What is read is in order, to the end.
        assert found[:-1] in [EVERYTHING[start:] for start in range(len(EVERYTHING) + 1)]


@fuzz
@given(
    st.dictionaries(st.sampled_from([0, 1, 2, 3, 7, 10**6]), st.binary(max_size=200)), st.binary(max_size=60)
)
def test_foreign_bytes_everywhere(files: dict[int, bytes], metadata: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for number, content in files.items():
            (directory / f"t.diskqueue.{number:06d}.dat").write_bytes(content)
        (directory / "t.diskqueue.meta.dat").write_bytes(metadata)
        assert drain(directory)[-1] == b"after"


@fuzz
@given(damages())
def test_a_damaged_list_of_topics(damage: Damage) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for queue_name in ("t", "t:c", "u"):
            queue = DiskQueue(directory, queue_name, LIMITS)
            queue.append([Stored(b"x")])
            queue.close()
        topics = {"t": StoredTopic(False, {"c": True}), "u": StoredTopic(True)}
        content = format_topics(topics, "1.3.0")
        damaged = damage(content)
        topics_path(directory).write_bytes(damaged)
        found = load_topics(directory)
        if topics_path(directory).exists():
            assert isinstance(found, dict)  # it can still be read, with other names perhaps
        else:
            assert {name: set(topic.channels) for name, topic in found.items()} == {"t": {"c"}, "u": set()}
            assert (directory / "nsqd.dat.bad").read_bytes() == damaged


@fuzz
@given(damages())
def test_damaged_delays(damage: Damage) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        delays = [Delay("t:c", b"%016d" % number, number, (0, number), number) for number in range(5)]
        write_delays(directory, delays)
        assert read_delays(directory) == delays
        path = delays_path(directory)
        path.write_bytes(damage(path.read_bytes()))
        assert len(read_delays(directory)) <= 65
