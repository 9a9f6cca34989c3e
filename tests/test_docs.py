"""The code in the README and in docs/ runs, on both backends, against embedded servers."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

import anyio
import anyio.from_thread
import pytest

import nsq_anyio as nsq
import nsq_anyio.sync  # pyright: ignore[reportUnusedImport] - it must not meet the patched `anyio.run`
from nsq_anyio.embedded import Authorization, AuthRequest, AuthState

from .redis_server import redis_server
from .tls_files import TLSFiles

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES.remove(ROOT / "docs" / "testing.md")  # its tests run in tests/testing/test_page.py
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r"```\{include\} (\S+)")
OPENING = re.compile(r"# .+\n\n(?!```|See )[\w`*\[].*\n(?!: )")
"""A title and a paragraph, which is no list of definitions."""

EXAMPLES = [
    pytest.param(match[1], id=f"{page.stem}-{number}")
    for page in PAGES
    for number, match in enumerate(BLOCK.finditer(page.read_text("utf-8")))
]

REDIS = "redis://127.0.0.1:6379/0"
_SECONDS_TO_PRINT = 20.0
_SECONDS_WITHOUT_PRINT = 0.5


@pytest.fixture
def cluster(tls_files: TLSFiles, tmp_path: Path) -> Generator[dict[str, str]]:
    """An embedded cluster in a thread of its own; what the documentation's addresses and paths stand for."""
    with ExitStack() as stack:
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
        lookupd = stack.enter_context(portal.wrap_async_context_manager(nsq.embedded.nsqlookupd()))
        nsqds = [
            stack.enter_context(
                portal.wrap_async_context_manager(
                    nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address])
                )
            )
            for _ in range(2)
        ]
        secured = stack.enter_context(
            portal.wrap_async_context_manager(
                nsq.embedded.nsqd(
                    options=nsq.embedded.NsqdOptions(
                        tls_cert=tls_files.server.certificate_file,
                        tls_key=tls_files.server.private_key_file,
                        tls_required="tcp-https",
                        auth=authorize,
                    )
                )
            )
        )
        # A channel gets only what is published after it came into being, so there is always something new.
        clicks = stack.enter_context(
            _cancelled_at_end(portal.start_task_soon(_publish_clicks, nsqds[0].tcp_address))
        )
        portal.call(_until_known, lookupd.http_url)
        assert not clicks.done()
        yield {
            "http://127.0.0.1:4161": lookupd.http_url,
            "http://127.0.0.1:4151": nsqds[0].http_url,
            "127.0.0.1:4150": nsqds[0].tcp_address,
            "127.0.0.1:4250": nsqds[1].tcp_address,
            "nsqd.example.com:4150": secured.tcp_address,
            "/etc/nsq/ca.pem": tls_files.ca_file,
            "0.0.0.0:8080": "127.0.0.1:0",
            "delays.db": str(tmp_path / "delays.db"),
        }


def authorize(request: AuthRequest) -> AuthState:
    """Let in whoever has the documentation's secret."""
    if request.secret != "s3cret":
        raise PermissionError
    return AuthState(ttl=60, authorizations=(Authorization(),))


def on(cluster: dict[str, str], example: str) -> str:
    """Replace the addresses and paths of the documentation."""
    # All in one pass: a real port such as 41500 begins with a documented one.
    return re.sub("|".join(map(re.escape, cluster)), lambda match: cluster[match[0]], example)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs(
    example: str,
    backend: str,
    cluster: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # some examples make files
    example = on(cluster, example)
    real_run = anyio.run
    has_printed = threading.Event()

    async def for_a_while(main: Callable[[], Awaitable[object]]) -> None:
        # Most examples are services, which run until they are cancelled: here, once they have printed.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_after_print, tasks.cancel_scope)
            await main()
            tasks.cancel_scope.cancel()

    async def cancel_after_print(scope: anyio.CancelScope) -> None:
        with anyio.move_on_after(_SECONDS_TO_PRINT if "print(" in example else _SECONDS_WITHOUT_PRINT):
            while not has_printed.is_set():  # noqa: ASYNC110 - plain handlers print in threads
                await anyio.sleep(0.005)
        scope.cancel()

    def run(
        main: Callable[[], Awaitable[object]], *, backend_options: dict[str, object] | None = None
    ) -> None:
        if backend_options is None:
            real_run(for_a_while, main, backend=backend)
        else:  # an example that chooses its loop
            real_run(for_a_while, main, backend_options=backend_options)

    monkeypatch.setattr(anyio, "run", run)

    def note_print(*_values: object, **_options: object) -> None:
        has_printed.set()

    namespace: dict[str, object] = {"__name__": "__main__", "print": note_print}
    with redis_server() if REDIS in example else nullcontext() as redis:
        example = example.replace(REDIS, redis.url if redis else REDIS)
        exec(compile(example, "<example>", "exec"), namespace)
    assert has_printed.is_set() or "print(" not in example


def test_the_cells_of_a_notebook_run_each_in_a_task(cluster: dict[str, str]) -> None:
    """As Jupyter's kernel runs them, in asyncio's event loop."""
    page = (ROOT / "docs" / "howto.md").read_text("utf-8")
    _, section = page.split("\n## Work in a notebook\n")
    cells = re.findall(r"^```py\n(.*?)^```$", section.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    assert len(cells) == 3
    printed: list[object] = []
    namespace: dict[str, object] = {"print": printed.append}

    async def run(cell: str) -> None:
        code = compile(on(cluster, cell), "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        awaitable = eval(code, namespace)
        assert inspect.isawaitable(awaitable)
        await awaitable

    async def notebook() -> None:
        for cell in cells:
            await asyncio.create_task(run(cell))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(notebook())
    assert len(printed) == 1


async def _publish_clicks(nsqd: str) -> None:
    async with nsq.produce(nsqd) as producer:
        while True:
            await producer.publish("clicks", b"click")
            await anyio.sleep(0.02)


async def _until_known(lookupd: str) -> None:
    """Wait until nsqlookupd knows the topic, which nsqd registers a moment after the first publish."""
    with anyio.fail_after(_SECONDS_TO_PRINT):
        async with nsq.http.Nsqlookupd(lookupd) as http:
            while "clicks" not in await http.topics():  # noqa: ASYNC110 - nsqlookupd is only asked
                await anyio.sleep(0.01)


@contextmanager
def _cancelled_at_end(future: Future[None]) -> Generator[Future[None]]:
    yield future
    future.cancel()


def test_every_page_is_looked_at() -> None:
    assert ROOT / "docs" / "index.md" in PAGES
    assert EXAMPLES


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT))
)
def test_page_begins_with_what_it_is_for(page: Path) -> None:
    text = page.read_text("utf-8")
    if included := INCLUDED.match(text):
        text = (page.parent / included[1]).read_text("utf-8")
    assert OPENING.match(text)
