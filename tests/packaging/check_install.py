"""Checks an installation: ``python check_install.py EXTRA ...``, with the interpreter that has the package.

Without extras everything that needs none must work, and everything else must say which extra it needs.
"""

import importlib
import subprocess
import sys
from importlib.metadata import metadata

import anyio

import nsq_anyio as nsq

NEEDS = {
    "cli": ["click", "rich", "httpcore"],
    "http2": ["h2"],
    "object-store": ["obstore"],
    "opentelemetry": ["opentelemetry", "nsq_anyio.instrumentation.opentelemetry"],
    "prometheus": ["prometheus_client", "nsq_anyio.instrumentation.prometheus"],
    "re2": ["re2"],
    "redis": ["redis"],
    "reload": ["watchfiles"],
    "spark": ["pyarrow", "nsq_anyio.spark"],
    "spark-object-store": ["obstore"],
    "taskiq": ["taskiq", "nsq_anyio.contrib.taskiq"],
    "admin": ["jinja2", "nsq_anyio.admin"],
    "trio": ["trio"],
    "uvloop": ["uvloop"],
    "zstd": ["compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"],
}
"""What each extra makes importable."""

BRINGS = {"cli": {"admin"}, "spark-object-store": {"spark", "object-store"}}
"""Extras that another one has in it."""

NOT_IN_ALL = {"re2"}
"""What cannot be installed on every Python."""

COVERED = {"all", "codec"}
"""The one has the others, and the other is a distribution of its own, with a session of its own."""


def check_extra(extra: str) -> None:
    for module in NEEDS[extra]:
        importlib.import_module(module)


def check_missing(extra: str) -> None:
    """An import of what needs a missing extra names the extra."""
    for module in NEEDS[extra]:
        if not module.startswith("nsq_anyio"):
            continue
        problem = ""
        try:
            importlib.import_module(module)
        except ImportError as error:
            problem = str(error)
        assert f"pip install 'nsq-anyio[{extra}]'" in problem, (
            f"{module} without {extra}: {problem or 'works'}"
        )


def check_command(*, is_there: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "nsq_anyio", "--version"], check=False, capture_output=True, text=True
    )
    if is_there:
        assert done.returncode == 0, done
    else:
        assert done.returncode == 1, done
        assert "pip install 'nsq-anyio[cli]'" in done.stderr, done


async def round_trip() -> None:
    async with nsq.embedded.nsqd() as nsqd:
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("clicks", b"hello")
        with anyio.fail_after(20):
            async with nsq.consume("clicks", "archive", nsqd=nsqd.tcp_address) as consumer:
                async for message in consumer:
                    message.finish()
                    assert message.body == b"hello"
                    return


def main() -> None:
    given = set(sys.argv[1:])
    declared = set(metadata("nsq-anyio").get_all("Provides-Extra") or [])
    assert declared == NEEDS.keys() | COVERED, (
        f"extras without a check: {declared ^ (NEEDS.keys() | COVERED)}"
    )
    brought = {each for extra in given for each in BRINGS.get(extra, ())}
    there = NEEDS.keys() - NOT_IN_ALL if "all" in given else given | brought
    for extra in sorted(NEEDS):
        if extra in there:
            check_extra(extra)
        else:
            check_missing(extra)
    check_command(is_there="cli" in there)
    anyio.run(round_trip)
    if "trio" in there:
        anyio.run(round_trip, backend="trio")
    print("works with", ", ".join(sorted(given)) or "no extra")  # noqa: T201 - a program


if __name__ == "__main__":
    main()
