"""No file imports one that imports it, however far around: not for types, and not in a function either."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "nsq_anyio"


def modules(root: Path) -> dict[str, Path]:
    """Each file of the package by the name of its module."""
    found: dict[str, Path] = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(module: str, source: str, *, is_package: bool) -> Iterator[str]:
    """The names that ``module`` imports, wherever the import stands: modules, or what is in them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            base = parts[: len(parts) - node.level + is_package] if node.level else []
            for alias in node.names:
                yield ".".join([*base, *filter(None, [node.module]), alias.name])


def cycle(sources: Mapping[str, tuple[str, bool]]) -> list[str]:
    """A cycle among modules, each given as its source and whether it is a package; empty if there is none."""
    graph: dict[str, set[str]] = {}
    for module, (source, is_package) in sources.items():
        graph[module] = set()
        for name in imported(module, source, is_package=is_package):
            target = name if name in sources else name.rpartition(".")[0]
            if target in sources and target != module:
                graph[module].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_import_goes_in_a_circle() -> None:
    sources = {
        module: (path.read_text(encoding="utf-8"), path.name == "__init__.py")
        for module, path in modules(ROOT).items()
    }
    assert "nsq_anyio.producer.publication" in sources
    assert cycle(sources) == []


@pytest.mark.parametrize(
    "source",
    [
        "from .b import x",
        "from . import b",
        "import p.b",
        "if TYPE_CHECKING:\n    from .b import x",
        "def f():\n    from p.b import x",
    ],
)
def test_a_cycle_is_found(source: str) -> None:
    sources = {"p": ("", True), "p.a": (source, False), "p.b": ("from .c import y", False)}
    assert cycle({**sources, "p.c": ("from .d import z", False)}) == []
    assert cycle({**sources, "p.c": ("from .a import z", False)})


def test_a_package_that_brings_in_its_files_is_no_cycle() -> None:
    assert (
        cycle({"p": ("from .a import x", True), "p.a": ("from .b import y", False), "p.b": ("", False)}) == []
    )
    assert cycle({"p": ("from .a import x", True), "p.a": ("from . import x", False)}) == ["p", "p.a", "p"]
