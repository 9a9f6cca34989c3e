"""The reference in Markdown: signatures and docstrings, read from the source without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path
from textwrap import dedent, fill, indent

ROOT = Path(__file__).parent.parent
HOMES = {"nsq_anyio": ROOT, "faststream_nsq": ROOT / "contrib" / "faststream-nsq"}
MADE_BY_USERS = {
    *(
        "Claimed",
        "DeadLetter",
        "Deduplicate",
        "MemoryStore",
        "RateLimit",
        "RedisStore",
        "SQLiteStore",
        "Requeue",
        "Discard",
        "Client",
        "Cluster",
        "Envelope",
        "Address",
        "UnixAddress",
    ),
    *(
        "OpenTelemetryMiddleware",
        "NSQCollector",
        "NsqBroker",
        "NsqRetryMiddleware",
        "Authorization",
        "AuthState",
    ),
}
"""Classes whose parameters are shown. Functions make the others, but for options, whose fields are listed."""
SHOWN_DECORATORS = {"staticmethod", "classmethod", "asynccontextmanager", "contextmanager"}
WIDTH = 120
LONGEST_VALUE = 100
FIELD = re.compile(r":(param|ivar|raises|returns?)\s*([^:]*):\s*(.*)")
GROUPS = {"param": "", "ivar": "", "raises": "Raises:", "return": "Returns:", "returns": "Returns:"}
INTERNAL = re.compile(r"; internal\b")
CODE = re.compile(r"``(.+?)``|(?<![\w`])`([^`]+)`", re.DOTALL)

Link = Callable[[str], "str | None"]
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Entry:
    """What a page shows of a name: a heading, but for a module, and the text below.

    :ivar values: what the text itself has of a class: its properties and fields
    """

    name: str
    heading: str
    level: int
    text: Callable[[Link], str]
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Found:
    """A definition, and the module in which it stands."""

    module: str
    node: Definition | Assignment
    doc: str

    def source(self, node: ast.AST) -> str:
        return ast.get_source_segment(source_of(self.module), node) or ""


def entries(line: str, level: int) -> Iterator[Entry]:
    """What a line of a page asks for: ``name``, ``name: members``, ``name: inherited except a, b``, ``name: a, b``."""
    name, _, wanted = line.partition(":")
    wanted, _, left_out = wanted.strip().partition(" except ")
    leave_out = set(filter(None, left_out.split(", ")))
    if path_of(name) is None or wanted == "":
        yield from _of_object(name, resolve(name), level, wanted, leave_out)
        return
    module = parsed(name)
    yield Entry(name, "", level, lambda link: markdown(ast.get_docstring(module) or "", link))
    for each in _public_names(name):
        found = resolve(f"{name}.{each}")
        if each not in leave_out and found.doc:
            yield from _of_object(f"{name}.{each}", found, level, wanted, leave_out)


def _of_object(
    name: str, found: Found, level: int, wanted: str, leave_out: set[str], heading: str = ""
) -> Iterator[Entry]:
    node, short = found.node, name.rpartition(".")[2]
    if not isinstance(node, ast.ClassDef):

        def shown_alone(link: Link) -> str:
            return "\n\n".join([code(with_aliases(found, signature(found))), markdown(found.doc, link)])

        yield Entry(name, heading or name, level, shown_alone)
        return
    named = set(wanted.split(", ")) - {"", "members", "inherited"}
    every = members(found, inherited=wanted == "inherited" or bool(named)) if wanted else {}
    shown = {
        each: what for each, what in every.items() if each not in leave_out and (not named or each in named)
    }
    if missing := named - shown.keys():
        raise LookupError(f"{name} has no {', '.join(missing)}")
    values = {each: what for each, what in shown.items() if is_value(what.node)}

    def text(link: Link) -> str:
        parts = (
            [code(with_aliases(found, constructor(found, short)))]
            if short in MADE_BY_USERS and ".testing." not in name
            else []
        )
        parts.append(markdown(found.doc, link))
        parts += (
            ["Attributes:", "\n".join(_value(each, what, link) for each, what in values.items())]
            if values
            else []
        )
        return "\n\n".join(filter(None, parts))

    described = re.findall(r"^:(?:ivar|param) (\w+):", found.doc, re.MULTILINE)
    yield Entry(name, name, level, text, (*values, *described))
    for each, what in shown.items():
        if each not in values:
            yield from _of_object(f"{name}.{each}", what, level + 1, "", set(), f"{short}.{each}")


def _public_names(module: str) -> list[str]:
    """The names of a module, in the order of its source; in the order of ``__all__`` if they come from elsewhere."""
    tree = parsed(module)
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    own = [name for node, _ in documented(tree.body) for name in [name_of(node)] if name in listed]
    return [*own, *(name for name in listed if name not in own)]


def path_of(module: str) -> Path | None:
    home = HOMES.get(module.partition(".")[0])
    if home is None:
        return None
    path = home.joinpath(*module.split("."))
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.is_file()), None)


@cache
def source_of(module: str) -> str:
    path = path_of(module)
    assert path is not None, module
    return path.read_text("utf-8")


@cache
def parsed(module: str) -> ast.Module:
    return ast.parse(source_of(module))


@cache
def resolve(name: str) -> Found:
    """Find what a dotted name means; it may be imported from elsewhere, and be a member of a class."""
    owner, _, last = name.rpartition(".")
    if owner.partition(".")[0] not in HOMES:
        raise LookupError(name)
    if path_of(owner) is None:
        cls = resolve(owner)
        return members(cls, inherited=True)[last]  # a KeyError is a LookupError
    for node, doc in documented(parsed(owner).body):
        if name_of(node) == last:
            return Found(owner, node, doc)
    for node in ast.walk(parsed(owner)):
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                if (each.asname or each.name) == last:
                    return resolve(f"{_absolute(owner, node)}.{each.name}")
    raise LookupError(name)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    path = path_of(module)
    assert path is not None
    up = node.level - (path.name == "__init__.py")
    return ".".join([*parts[: len(parts) - up], *filter(None, [node.module])])


def documented(body: list[ast.stmt]) -> Iterator[tuple[Definition | Assignment, str]]:
    """The definitions of a module or class, with their docstrings; an assignment's stands below it."""
    for node, below in pairwise([*body, ast.Pass()]):
        if isinstance(node, Definition):
            yield node, ast.get_docstring(node) or ""
        elif isinstance(node, Assignment):
            match below:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield node, cleandoc(text)
                case _:
                    yield node, ""


def name_of(node: Definition | Assignment) -> str:
    if isinstance(node, Definition):
        return node.name
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return ast.unparse(target).removeprefix("self.")


def members(cls: Found, *, inherited: bool) -> dict[str, Found]:
    """The public members of a class that have a docstring, if only that of the base class."""
    assert isinstance(cls.node, ast.ClassDef)
    own: dict[str, Found] = {}
    for node, doc in [*documented(cls.node.body), *_attributes(cls.node)]:
        own.setdefault(name_of(node), Found(cls.module, node, doc))
    of_bases: dict[str, Found] = {}
    for base in cls.node.bases:
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        try:
            found = resolve(f"{cls.module}.{name}")
        except LookupError:
            continue  # of another project
        if isinstance(found.node, ast.ClassDef):
            of_bases |= members(found, inherited=True)
    for name, found in own.items():
        if not found.doc and name in of_bases:
            own[name] = Found(found.module, found.node, of_bases[name].doc)
    every = {**own, **{name: found for name, found in of_bases.items() if inherited and name not in own}}
    return {
        name: found
        for name, found in every.items()
        if found.doc and not name.startswith("_") and not INTERNAL.search(found.doc)
    }


def _attributes(node: ast.ClassDef) -> Iterator[tuple[Definition | Assignment, str]]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            yield from ((found, doc) for found, doc in documented(each.body) if doc)


def decorators(node: Definition) -> set[str]:
    return {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}


def is_value(node: Definition | Assignment) -> bool:
    return isinstance(node, Assignment) or bool(decorators(node) & {"property", "cached_property"})


def _value(name: str, found: Found, link: Link) -> str:
    node = found.node
    if isinstance(node, ast.FunctionDef):
        kind = found.source(node.returns) if node.returns else ""
    else:
        kind = bare(found, node.annotation) if isinstance(node, ast.AnnAssign) else ""
    said = f"`{name}: {' '.join(kind.split())}`" if kind else f"`{name}`"
    first, *more = markdown(found.doc, link).split("\n\n")
    return item("\n\n".join([wrap(f"{said}: {first}"), *more]))


def bare(found: Found, annotation: ast.expr) -> str:
    """A type without what an option declares beside it."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return found.source(kind)
        case _:
            return found.source(annotation)


def signature(found: Found) -> str:
    node = found.node
    if isinstance(node, Assignment):
        text = found.source(node)
        return text if len(text) <= LONGEST_VALUE else text.partition("=")[0].rstrip()
    assert not isinstance(node, ast.ClassDef)
    shown = [f"@{name}\n" for name in sorted(decorators(node) & SHOWN_DECORATORS)]
    return "".join([*shown, _head(found, node)])


def _head(found: Found, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The source from ``def`` to the colon, without ``self``, on one line if it fits."""
    lines = source_of(found.module).splitlines()
    last = node.body[0].lineno - 1
    text = dedent("\n".join(lines[node.lineno - 1 : last]))
    text = re.sub(r"\s+#.*", "", text).rstrip().removesuffix("...").rstrip().removesuffix(":")
    text = re.sub(r"\(\s*(self|cls)(,\s*/)?\s*(,\s*|(?=\)))", "(", text, count=1)
    joined = re.sub(r",?\s*\n\)", ")", re.sub(r"(?<=[(\[])\n\s*", "", text))
    joined = re.sub(r"\s*\n\s*", " ", joined)
    return joined if len(joined) <= WIDTH else text if "(\n" in text else text.replace("(", "(\n    ", 1)


def constructor(found: Found, name: str) -> str:
    """How an object is made."""
    assert isinstance(found.node, ast.ClassDef)
    for node in found.node.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            head = _head(found, node)
            return head.replace("def __init__", name, 1).removesuffix(" -> None")
    parameters = [
        found.source(node)
        for node in found.node.body
        if isinstance(node, ast.AnnAssign) and not name_of(node).startswith("_")
    ]
    star = ["*"] if any("kw_only=True" in ast.unparse(each) for each in found.node.decorator_list) else []
    joined = f"{name}({', '.join([*star, *parameters])})"
    lines = "".join(f"    {each},\n" for each in [*star, *parameters])
    return joined if len(joined) <= WIDTH else f"{name}(\n{lines})"


def with_aliases(found: Found, text: str) -> str:
    """A signature, and what its names for types mean."""
    meant: dict[str, str] = {}
    for name in dict.fromkeys(re.findall(r"\b[A-Z][a-z]\w*", text)):
        try:
            alias = resolve(f"{found.module}.{name}")
        except LookupError:
            continue  # of another project
        node = alias.node
        if isinstance(node, Assignment) and node is not found.node:
            if isinstance(node.value, ast.Subscript | ast.BinOp | ast.Constant):
                meant[name] = re.sub(r"\s*\n\s*", " ", alias.source(node.value)).strip('"')
    return "\n\n".join(filter(None, [text, "\n".join(f"{name} = {said}" for name, said in meant.items())]))


def code(text: str, language: str = "py") -> str:
    # Not `python`: the tests run those.
    return f"```{language}\n{text}\n```"


def item(text: str) -> str:
    return f"- {indent(text, '  ').lstrip()}"


def markdown(doc: str, link: Link) -> str:
    """A docstring in Markdown."""
    parts: list[str] = []
    blocks = _blocks(doc)
    for kind, text in blocks:
        if kind == "fields":
            parts += _fields(text, link, is_introduced=bool(parts) and parts[-1].endswith(":"))
        elif kind == "literal":
            parts.append(code(text, "py" if _is_python(text) else "text"))
        elif kind == "list":
            items = re.split(r"^[-*] ", text, flags=re.MULTILINE)[1:]
            parts.append("\n".join(item(wrap(inline(each, link))) for each in items))
        else:
            parts.append(wrap(inline(text, link)))
    return "\n\n".join(filter(None, parts))


def _blocks(doc: str) -> Iterator[tuple[str, str]]:
    """The paragraphs, lists, fields and literal blocks of a docstring."""
    is_literal = False
    literal: list[str] = []
    for block in re.split(r"\n\s*\n", doc.strip("\n")):
        if is_literal and block.startswith(" "):
            literal.append(block)
            continue
        if literal:
            yield "literal", dedent("\n\n".join(literal))
            literal = []
        is_literal = block.rstrip().endswith("::")
        if block.lstrip().startswith(":") and FIELD.match(block):
            yield "fields", block
        elif re.match(r"[-*] ", block):
            yield "list", block
        else:
            yield (
                "text",
                re.sub(
                    r"(?<=\S)::$|\s*::$",
                    lambda found: ":" if found[0] == "::" and found.start() else "",
                    block,
                ),
            )
    if literal:
        yield "literal", dedent("\n\n".join(literal))


def _fields(text: str, link: Link, *, is_introduced: bool) -> Iterator[str]:
    title = None
    items: list[str] = []
    for field in re.split(r"\n(?=:)", text):
        found = FIELD.match(field)
        assert found is not None, field
        kind, name, first = found.groups()
        if GROUPS[kind] != title:
            if items:
                yield "\n".join(items)
            items = [GROUPS[kind], ""] if GROUPS[kind] and not is_introduced else []
            title = GROUPS[kind]
        said = first + field[found.end() :]
        if INTERNAL.search(said):
            continue
        named = ", ".join(
            inline(f"`{each}`" if kind == "raises" else f"``{each}``", link) for each in name.split(", ")
        )
        items.append(item(wrap(f"{named}: {inline(said, link)}" if name else inline(said, link))))
    yield "\n".join(items)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def inline(text: str, link: Link) -> str:
    """A paragraph: code, and names, which lead to their places."""

    def replaced(found: re.Match[str]) -> str:
        literal, name = found[1], found[2]
        if literal is not None:
            return f"`{literal}`"
        place = link(name)
        return f"[`{name}`]({place})" if place else f"`{name}`"

    parts = []
    end = 0
    for found in CODE.finditer(text):
        parts += [_escaped(text[end : found.start()]), replaced(found)]
        end = found.end()
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return re.sub(r"([*<\[\]])", r"\\\1", text)


def wrap(text: str) -> str:
    # A line must not begin with a minus or a number, which would make it a list.
    joined = re.sub(r" (?=[-+*#>] |\d+[.)] )", "\0", " ".join(text.split()))
    return fill(joined, WIDTH - 4, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def slug(heading: str) -> str:
    """The anchor of a heading, as in a repository and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
