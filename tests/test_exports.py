"""What the package promises by name: it is there, listed, documented, and costs nothing to import."""

import ast
import importlib
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from operator import attrgetter
from types import ModuleType

import pytest

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

each_module = pytest.mark.parametrize("source", MODULES, ids=lambda source: source.name)


def load(source: Module) -> ModuleType:
    for unit, needs in EXTRAS.items():
        if f"{source.name}.".startswith(f"nsq_anyio.{unit}."):
            pytest.importorskip(needs)
    return importlib.import_module(source.name)


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, as the linter sorts ``__all__``."""
    return (0 if name.isupper() else 1 if name[:1].isupper() else 2), name


def public_without_docstring(source: str) -> Iterator[str]:
    """Each public function, class and method in ``source`` that says nothing about itself."""
    tree = ast.parse(source)
    if tree.body and not ast.get_docstring(tree):
        yield "the module"
    for node in tree.body:
        yield from _undocumented(node, "")


def _undocumented(node: ast.stmt, prefix: str) -> Iterator[str]:
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith(
        "_"
    ):
        return
    # An overload and a setter are documented where the function and the property are.
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    if not ast.get_docstring(node) and not decorators & {"overload", "setter", "override"}:
        yield prefix + node.name
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            yield from _undocumented(child, f"{prefix}{node.name}.")


def inherits_docstring(module: ModuleType, name: str) -> bool:
    """Whether ``name`` is a method that does what the same method of a base class says."""
    if "." not in name:
        return False
    found: object = attrgetter(name)(module)
    return not inspect.isclass(found) and inspect.getdoc(found) is not None


def public_definitions(source: str) -> set[str]:
    return {
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[:1] != "_"
    }


@each_module
def test_all_names_exist_and_are_sorted(source: Module) -> None:
    module = load(source)
    names: list[str] = getattr(module, "__all__", [])
    assert sorted(names, key=order) == names
    assert len(set(names)) == len(names)
    assert [name for name in names if not hasattr(module, name)] == []


@each_module
def test_all_lists_what_is_defined_without_an_underscore(source: Module) -> None:
    defined = public_definitions(source.source)
    assert defined - set(getattr(load(source), "__all__", [])) == set()


@each_module
def test_what_is_public_has_a_docstring(source: Module) -> None:
    missing = list(public_without_docstring(source.source))
    if missing:
        module = load(source)
        missing = [name for name in missing if not inherits_docstring(module, name)]
    assert missing == []


@each_module
def test_editors_see_what_is_imported_lazily(source: Module) -> None:
    # Jedi, behind IPython and others, believes a plain False, and skips the imports below it.
    assert "\nTYPE_CHECKING = False" not in source.source


def test_the_docstring_check_sees_what_is_missing() -> None:
    source = '''
        """Here."""
        def a(): pass
        async def b(): pass
        def c():
            """Here."""
        def _d(): pass
        class E:
            def __init__(self): pass
            def f(self): pass
            @property
            def g(self):
                """Here."""
            @g.setter
            def g(self, value): pass
            class H:
                @typing.overload
                def i(self): pass
                @staticmethod
                def j(): pass
        class _K:
            def l(self): pass
    '''
    assert list(public_without_docstring(textwrap.dedent(source))) == ["a", "b", "E", "E.f", "E.H", "E.H.j"]
    assert list(public_without_docstring("x = 1")) == ["the module"]
    assert list(public_without_docstring("")) == []
    assert public_definitions(textwrap.dedent(source)) == {"a", "b", "c", "E"}


def test_a_method_may_leave_its_docstring_to_a_base_class(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    source = """
        class Base:
            "Here."
            def a(self): "Here."
            def b(self): pass
        class Derived(Base):
            def a(self): pass
            def b(self): pass
            def c(self): pass
    """
    exec(textwrap.dedent(source), vars(module))
    names = ("Derived", "Derived.a", "Derived.b", "Derived.c")
    assert [name for name in names if inherits_docstring(module, name)] == ["Derived.a"]


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
        extras += ["taskiq", "uvloop"]
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
