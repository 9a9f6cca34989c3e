"""Write the tables of options, the reference, the tree of the code and the alerts: ``python docs/generate.py``.

A page says in a comment what stands there:

    <!-- options: nsq_anyio.ConsumerOptions -->
    <!-- tree: nsq_anyio -->
    <!-- reference
    nsq_anyio.consume
    nsq_anyio.Consumer: members
    -->

What follows, up to ``<!-- end -->``, is replaced. The alerts are a file of their own. The tests fail when
something is stale.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from os.path import relpath
from pathlib import Path
from textwrap import wrap

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import alert_rules
import api
from option_tables import table

BLOCK = re.compile(r"(<!-- (options:|tree:|reference\n)(.*?)-->\n).*?(<!-- end -->)", re.DOTALL)
HEADING = re.compile(r"^(#+) ", re.MULTILINE)
OF_OTHERS = re.compile(
    r"(anyio|asyncio|collections|concurrent|contextlib|fast_depends|faststream|httpx|logging|opentelemetry|os|"
    r"prometheus_client|ssl|taskiq|trio)\..*|IncorrectState|SendableMessage|SetupError"
)
"""Names of other projects, which have no place in these pages."""


class Places:
    """Where names have their headings: the page and the anchor."""

    def __init__(self, entries: Iterable[tuple[Path, api.Entry]]) -> None:
        self.unknown: set[str] = set()
        self.places: dict[str, tuple[Path, str]] = {}
        seen: Counter[tuple[Path, str]] = Counter()
        for page, entry in entries:
            anchor = f"#{api.slug(entry.heading)}" if entry.heading else ""
            number = seen[page, anchor]  # `Cluster` and `cluster` differ in nothing else
            seen[page, anchor] += 1
            for name in [entry.name, *(f"{entry.name}.{value}" for value in entry.values)]:
                self.places[name] = (page, f"{anchor}-{number}" if anchor and number else anchor)

    def link(self, page: Path, inside: str = "") -> api.Link:
        """Lead from a page to a name that stands without its module: in what is around it, then elsewhere."""
        parts = inside.split(".")

        def lead(name: str) -> str | None:
            around = [".".join([*parts[:count], name]) for count in range(len(parts), 0, -1)]
            known = [*around, name, f"nsq_anyio.errors.{name}", f"nsq_anyio.events.{name}"]
            known += [each for each in self.places if each.endswith(f".{name}")]
            found = next((self.places[each] for each in known if each in self.places), None)
            if found is not None:
                target, anchor = found
                return anchor if target == page and anchor else f"{relpath(target, page.parent)}{anchor}"
            if not hasattr(builtins, name) and not OF_OTHERS.fullmatch(name):
                self.unknown.add(f"{name} in {inside or page}")
            return None

        return lead


def pages() -> Iterator[tuple[Path, str]]:
    """Yield the files with something generated, and what must stand in them.

    :raises LookupError: if a docstring names what no page shows
    """
    yield DOCS / "prometheus-alerts.yml", alert_rules.text()
    texts = {
        path: path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts
    }
    shown = {
        (path, found.start()): list(_entries(text[: found.start()], found[3]))
        for path, text in texts.items()
        for found in BLOCK.finditer(text)
        if found[2] == "reference\n"
    }
    places = Places((path, entry) for (path, _), entries in shown.items() for entry in entries)
    for path, text in texts.items():
        if BLOCK.search(text):

            def written(found: re.Match[str], path: Path = path) -> str:
                if found[2] == "options:":
                    body = _table(found[3].strip(), places.link(path))
                elif found[2] == "tree:":
                    body = _tree(DOCS.parent / found[3].strip())
                else:
                    sections = shown[path, found.start()]
                    body = "\n\n".join(_section(each, places.link(path, each.name)) for each in sections)
                return f"{found[1]}\n{body}\n\n{found[4]}"

            yield path, BLOCK.sub(written, text)
    if places.unknown:
        raise LookupError(f"docstrings name what no page shows: {', '.join(sorted(places.unknown))}")


def _entries(before: str, lines: str) -> Iterator[api.Entry]:
    level = len(HEADING.findall(before)[-1]) + 1
    for line in lines.splitlines():
        yield from api.entries(line, level)


def _section(entry: api.Entry, link: api.Link) -> str:
    text = entry.text(link)
    return f"{'#' * entry.level} `{entry.heading}`\n\n{text}" if entry.heading else text


def _table(name: str, link: api.Link) -> str:
    module, _, options = name.rpartition(".")
    return table(getattr(import_module(module), options), link)


def _tree(package: Path) -> str:
    """Return the two top levels of the folders: modules, and folders with a slash."""
    folders = [package, *sorted(path.parent for path in package.glob("*/__init__.py"))]
    lines = ["```text", f"{package.name}/"]
    for folder in folders:
        inner = [] if folder == package else sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        modules = sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")
        head = "*.py" if folder == package else f"{folder.name}/"
        lines += wrap(
            f"├ {head} {' '.join([*(f'{name}/' for name in inner), *modules])}",
            110,
            subsequent_indent="│    ",
        )
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    for path, text in list(pages()):
        path.write_text(text, "utf-8")
