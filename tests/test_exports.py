"""The names that the package promises: they are there, documented, and cost nothing to import."""

import importlib.util
import inspect
import subprocess
import sys
import textwrap

import nsq_anyio
from nsq_anyio import errors
from nsq_anyio.version import VERSION

from .package_source import MODULES, Module

# Importing these needs an extra; their names are checked when it is installed.
EXTRAS = {
    "admin": "jinja2",
    "cli": "click",
    "spark": "pyspark",
    "storage.object_stores": "obstore",
    "storage.objects": "obstore",
    "instrumentation.opentelemetry": "opentelemetry",
    "instrumentation.prometheus": "prometheus_client",
    "contrib.taskiq": "taskiq",
    "__main__": "click",
}

PUBLIC_API = {
    "ConnectionOptions",
    "Consumer",
    "ConsumerOptions",
    "Message",
    "Producer",
    "ProducerOptions",
    "accelerated",
    "consume",
    "embedded",
    "envelope",
    "http",
    "produce",
    *errors.__all__,
}


def is_installed(source: Module) -> bool:
    """Whether the extra that the module needs is installed."""
    needed = [needs for unit, needs in EXTRAS.items() if f"{source.name}.".startswith(f"nsq_anyio.{unit}.")]
    return all(importlib.util.find_spec(needs) for needs in needed)


def test_listed_names_exist_and_are_documented() -> None:
    """Modules that users import from list their names; what is listed says what it is."""
    wrong: list[str] = []
    for source in MODULES:
        if "\n__all__" not in source.source or not is_installed(source):
            continue
        module = importlib.import_module(source.name)
        names: list[str] = module.__all__
        found = {name: getattr(module, name, None) for name in names}
        wrong += [f"{source.name}.{name}" for name, value in found.items() if is_undocumented(value)]
    assert wrong == []


def is_undocumented(value: object) -> bool:
    """Whether it is missing, or a class or function of this package without a docstring."""
    return value is None or (
        (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__.startswith("nsq_anyio")
        and not inspect.getdoc(value)
    )


def test_editors_see_what_is_imported_lazily() -> None:
    # Jedi, behind IPython and others, believes a plain False, and skips the imports below it.
    assert [source.name for source in MODULES if "\nTYPE_CHECKING = False" in source.source] == []


def test_the_public_api() -> None:
    listed: list[str] = getattr(nsq_anyio, "__all__", [])
    assert PUBLIC_API - set(listed) == set()
    assert [name for name in listed if not hasattr(nsq_anyio, name)] == []


def test_the_package_lists_what_is_public_and_its_version() -> None:
    assert dir(nsq_anyio) == sorted([*nsq_anyio.__all__, "__version__"])
    assert nsq_anyio.__version__ == VERSION


def test_errors_are_one_class_under_both_names() -> None:
    others = [name for name in errors.__all__ if getattr(nsq_anyio, name, None) is not getattr(errors, name)]
    assert others == []


def python(code: str) -> str:
    """Run ``code`` in a fresh interpreter; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=False, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_takes_no_extra_and_no_event_loop() -> None:
    # None in sys.modules makes an import fail, as when it is not installed. (httpx imports click and rich
    # for its own command line where they are installed, so their absence can only be shown like this.)
    output = python("""
        import sys
        extras = ["click", "opentelemetry", "prometheus_client", "pyarrow", "pyspark", "rich", "trio"]
        extras += ["redis", "taskiq", "uvloop"]
        sys.modules.update(dict.fromkeys(extras))
        import nsq_anyio
        print(nsq_anyio.__name__)
    """)
    assert output == "nsq_anyio\n"


def test_importing_leaves_heavy_modules_alone() -> None:
    output = python("""
        import sys
        import nsq_anyio
        heavy = {"opentelemetry", "trio", "uvloop", "pyspark", "pyarrow", "taskiq"}
        heavy |= {"nsq_anyio.cli", "nsq_anyio.contrib", "nsq_anyio.spark", "nsq_anyio.storage"}
        print(sorted(heavy & set(sys.modules)))
    """)
    assert output == "[]\n"


def test_importing_does_nothing() -> None:
    """No socket, process, thread, log handler or signal handler; no file but Python's own is written."""
    output = python("""
        import logging, os, signal, sys, threading
        sys.dont_write_bytecode = True
        seen = []

        io = ("socket.", "subprocess.", "os.fork", "os.exec", "os.spawn", "_thread.start")
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

        def audit(event, args):
            if event.startswith(io):
                seen.append(event)
            elif event == "open" and isinstance(args[2], int) and args[2] & writing:
                seen.append(f"open {args[0]}")

        handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        sys.addaudithook(audit)
        import nsq_anyio
        print(seen, threading.active_count(), logging.getLogger().handlers)
        print([n for n in signal.valid_signals() if signal.getsignal(n) is not handlers[n]])
    """)
    assert output == "[] 1 []\n[]\n"


def test_the_audit_would_see_a_socket() -> None:
    output = python("""
        import socket, sys
        seen = []
        sys.addaudithook(lambda event, _: seen.append(event) if event.startswith("socket.") else None)
        socket.socket().close()
        print(seen)
    """)
    assert "socket.__new__" in output
