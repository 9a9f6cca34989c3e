"""No file imports one that imports it, however far around: not for types, and not in a function either."""

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter

import pytest

from .package_source import MODULES, Module


def cycle(modules: Iterable[Module]) -> list[str]:
    """The names of modules that import each other in a circle; empty if there are none."""
    by_name = {module.name: module for module in modules}
    graph: dict[str, set[str]] = {}
    for module in by_name.values():
        graph[module.name] = set()
        for each in module.imports():
            name = f"{each.module}.{each.name}"
            target = name if name in by_name else each.module
            if target in by_name and target != module.name:
                graph[module.name].add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_import_goes_in_a_circle() -> None:
    assert "nsq_anyio.producer.publication" in {module.name for module in MODULES}
    assert cycle(MODULES) == []


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
    modules = [
        Module("p", "", is_package=True),
        Module("p.a", source),
        Module("p.b", "from .c import y"),
    ]
    assert cycle([*modules, Module("p.c", "from .d import z")]) == []
    assert cycle([*modules, Module("p.c", "from .a import z")])


def test_a_package_that_brings_in_its_files_is_no_cycle() -> None:
    package = Module("p", "from .a import x", is_package=True)
    assert cycle([package, Module("p.a", "from .b import y"), Module("p.b", "")]) == []
    assert cycle([package, Module("p.a", "from . import x")]) == ["p", "p.a", "p"]
