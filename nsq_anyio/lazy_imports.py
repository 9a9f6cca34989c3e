"""Imports of a package's names on first use, because importing all of them takes long."""

from __future__ import annotations

TYPE_CHECKING: bool = False  # as in `typing`, whose import takes longer than this module's

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def importer(package: str, names: Mapping[str, Iterable[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package (PEP 562).

    :param names: the names by the module that defines them, relative to the package; a module without names
        is itself a name of the package
    """
    places = {name: module for module, found in names.items() for name in found}

    def __getattr__(name: str) -> object:  # noqa: N807
        from importlib import import_module  # noqa: PLC0415 - for this alone

        if name in places:
            value: object = getattr(import_module(places[name], package), name)
        elif not names.get(f".{name}", "none"):
            value = import_module(f".{name}", package)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(import_module(package), name, value)
        return value

    return __getattr__
