"""The source of the package: its modules, and what each of them imports."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = "nsq_anyio"
ROOT = Path(__file__).parent.parent / PACKAGE


class Import(NamedTuple):
    """One name that is imported.

    :ivar module: where it is imported from, as an absolute name
    :ivar name: empty for ``import module``
    """

    line: int
    module: str
    name: str
    for_types_only: bool


class Module(NamedTuple):
    """A module by its absolute name, with its source."""

    name: str
    source: str
    is_package: bool = False

    @property
    def unit(self) -> str:
        """The file or package directly under the package that it belongs to; "" for the package itself."""
        return unit_of(self.name)

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    def imports(self) -> Iterator[Import]:
        """Each name that it imports, wherever the import stands."""
        tree = self.tree
        for_types = {
            node
            for guard in ast.walk(tree)
            if isinstance(guard, ast.If)
            and ast.unparse(guard.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
            for statement in guard.body
            for node in ast.walk(statement)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(node.lineno, alias.name, "", node in for_types)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield Import(node.lineno, self._absolute(node), alias.name, node in for_types)

    def _absolute(self, node: ast.ImportFrom) -> str:
        parts = self.name.split(".")
        base = parts[: len(parts) - node.level + self.is_package] if node.level else []
        return ".".join([*base, *filter(None, [node.module])])


def unit_of(name: str) -> str:
    """The file or package directly under the package that a module belongs to; "" for the package itself."""
    return name.split(".")[1] if "." in name else ""


def _read(path: Path) -> Module:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, path.read_text(encoding="utf-8"), is_package)


MODULES = [_read(path) for path in sorted(ROOT.rglob("*.py"))]
"""All modules of the package."""
