"""Tests, examples and the code in docs/ know the package by its public names.

What is private can change without them. Tests in the folder of a package may use what is private in it, as
its modules do: a class that several modules share shows users nothing of that.
"""

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from .package_source import MODULES, PACKAGE

HERE = Path(__file__).parent
FILES = sorted(
    [*HERE.rglob("*.py"), *(HERE.parent / "examples").rglob("*.py"), *(HERE.parent / "docs").rglob("*.md")]
)

_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Calls that take the name of an attribute as a text.
_BY_TEXT = {
    "attrgetter",
    "delattr",
    "getattr",
    "hasattr",
    "import_module",
    "methodcaller",
    "object",
    "patch",
    "setattr",
}
_PRIVATE = re.compile(r"\b_(?!_)\w+")
_LAST_OF_TEXT = re.compile(r"(?:^|\.)(_(?!_)\w+)$")

ALLOWED: set[tuple[str, str]] = {
    *(("test_codec.py", name) for name in ("_arrival", "_codec_slots", "_is_wrapped", "_wire_id")),
    ("test_answers.py", "_response"),
    ("test_give_up.py", "_most_deliveries"),
}
"""The names that a test may use all the same, each with its file."""


def defined(tree: ast.AST) -> Iterator[str]:
    """The names that a source gives to functions, classes, variables, attributes and parameters."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls"))
                | ast.arg(arg=name)
            ):
                yield name
            case _:
                pass


@cache
def owners() -> dict[str, set[str]]:
    """The private names of each part of the package."""
    parts = groupby(sorted(MODULES, key=lambda module: module.unit), lambda module: module.unit)
    return {
        unit: {name for module in modules for name in defined(module.tree) if _PRIVATE.fullmatch(name)}
        for unit, modules in parts
    }


@cache
def all_private() -> set[str]:
    return set[str]().union(*owners().values())


def private_for(path: Path) -> set[str]:
    """The private names that a file must not use."""
    part = path.relative_to(HERE.parent).parts[1].removesuffix(".py").removeprefix("test_")
    return all_private() - owners().get(part, set()) if path.is_relative_to(HERE) else all_private()


def sources(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    yield from _CODE.findall(text) if path.suffix == ".md" else [text]


def reaches(source: str, private: set[str]) -> list[str]:
    """The private names of the package that a test uses, as ``line: name``; also those of programs in texts.

    A name that the test gives to something is its own, except on what it imports from the package.
    """
    if private.isdisjoint(_PRIVATE.findall(source)):
        return []  # parsing takes longer
    tree = ast.parse(textwrap.dedent(source))
    own = set(defined(tree))
    imported = _imported(tree)
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if name in private and (name not in own or _root(node) in imported):
                found.append((node.lineno, name))
            case ast.ImportFrom(module=str(module), names=names) if _is_of_package(module):
                parts = [*module.split("."), *(alias.name for alias in names)]
                found += [(node.lineno, part) for part in parts if _PRIVATE.fullmatch(part)]
            case ast.Import(names=names):
                parts = [
                    part for alias in names if _is_of_package(alias.name) for part in alias.name.split(".")
                ]
                found += [(node.lineno, part) for part in parts if _PRIVATE.fullmatch(part)]
            case ast.Call(func=function, args=arguments) if _name(function) in _BY_TEXT:
                texts = [text for text in arguments if isinstance(text, ast.Constant)]
                ends = [_LAST_OF_TEXT.search(str(text.value)) for text in texts]
                found += [(node.lineno, end[1]) for end in ends if end and end[1] in private]
            case ast.Constant(value=str(text)) if PACKAGE in text and _is_program(text):
                found += [(node.lineno, each.partition(": ")[2]) for each in reaches(text, private)]
            case _:
                pass
    return [f"{line}: {name}" for line, name in sorted(found)]


def _imported(tree: ast.AST) -> set[str]:
    """The names that stand for something of the package."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), level=0, names=names) if _is_of_package(module):
                found.update(alias.asname or alias.name for alias in names)
            case ast.Import(names=names):
                found.update(alias.asname or PACKAGE for alias in names if _is_of_package(alias.name))
            case _:
                pass
    return found


def _is_of_package(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def _root(node: ast.expr) -> str:
    """The name that an expression begins with: ``a`` in ``a.b().c``."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return _name(node)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_program(text: str) -> bool:
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return False
    return bool(_imported(tree))


def test_public_names_are_enough() -> None:
    found = {
        (path.name, name.partition(": ")[2]): name
        for path in FILES
        for source in sources(path)
        for name in reaches(source, private_for(path))
    }
    unknown = [f"{path}:{found[path, name]}" for path, name in found if (path, name) not in ALLOWED]
    assert unknown == [], "use what is public, or make it part of what its module offers: without underscore"
    assert found.keys() == ALLOWED, "an exception is left over"


# The checker itself, on small sources.


def test_the_private_names_are_found() -> None:
    assert {"_requests", "_received_error", "_HEADER", "_skip_space"} <= all_private()
    assert not {"FrameDecoder", "feed", "__init__"} & all_private()


@pytest.mark.parametrize(
    "source",
    [
        "thing._unseen",
        "thing.part._unseen.other",
        "thing()._unseen = 1",
        "from nsq_anyio.a import _unseen",
        "from nsq_anyio._unseen import a",
        "import nsq_anyio._unseen",
        "monkeypatch.setattr(thing, '_unseen', 1)",
        "monkeypatch.setattr('nsq_anyio.a._unseen', 1)",
        "mock.patch('nsq_anyio.a._unseen')",
        "mock.patch.object(thing, '_unseen')",
        "getattr(thing, '_unseen', None)",
        "class Own(Theirs):\n    def f(self): return self._unseen",
        "from nsq_anyio.a import thing\nclass Own:\n    _unseen = 1\nthing._unseen",
        "import nsq_anyio.a as thing\nclass Own:\n    _unseen = 1\nthing.b()._unseen",
        "PROGRAM = '''\n    from nsq_anyio import a\n    a._unseen = 1\n'''",
    ],
)
def test_what_reaches_into_it(source: str) -> None:
    assert [each.partition(": ")[2] for each in reaches(source, {"_unseen"})] == ["_unseen"]


@pytest.mark.parametrize(
    "source",
    [
        "thing.hidden",
        "thing._replace",
        "class Own:\n    def __init__(self): self._unseen = 1\nOwn()._unseen",
        "def _unseen(): pass\n_unseen()",
        "from .kit import _unseen",
        "text.removesuffix('_unseen')",
        "'The text says a._unseen.'",
        "getattr(thing, f'{name}_unseen')",
    ],
)
def test_what_does_not(source: str) -> None:
    assert reaches(source, {"_unseen"}) == []
