"""Python's documentation as passages.

Modules are parsed, never imported, so none of their code runs.
"""

import ast
import builtins
import inspect
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from services.contracts.base import JsonObject
from services.retrieval.corpus.chunking import cut

_EXCLUDED = frozenset(
    {"test", "tests", "idlelib", "lib2to3", "distutils", "site-packages", "dist-packages"}
)
_TOPICS = Path("pydoc_data") / "topics.py"
_SHORTEST = 20
"""Minimum length of a text worth indexing, in characters."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def rows() -> Iterator[JsonObject]:
    """Corpus rows: the language reference, and the docstrings of the standard library."""
    seen: set[str] = set()
    for kind, title, text in _texts():
        if title in seen or len(text) < _SHORTEST:
            continue
        seen.add(title)
        for number, passage in enumerate(cut(text), start=1):
            name = title if number == 1 else f"{title}#{number}"
            yield {"id": name, "title": title, "text": passage, "metadata": {"kind": kind}}


def _texts() -> Iterator[tuple[str, str, str]]:
    """Kind, title and text of everything documented."""
    library = Path(sysconfig.get_path("stdlib"))
    for topic, text in _topics(library / _TOPICS).items():
        yield "reference", topic, text
    for path in sorted(library.rglob("*.py")):
        parts = path.relative_to(library).with_suffix("").parts
        if not _EXCLUDED.isdisjoint(parts) or any(_is_private(part) for part in parts):
            continue
        tree = _parsed(path)
        if tree is not None:
            module = ".".join(part for part in parts if part != "__init__")
            yield from _documented(tree, module, "module")
    for name, value in _public(builtins):
        yield "builtin", name, _docstring(value)
        if isinstance(value, type) and not issubclass(value, BaseException):
            for inner, attribute in _public(value):
                yield "builtin", f"{name}.{inner}", _docstring(attribute)


def _topics(path: Path) -> dict[str, str]:
    """The language reference: one dictionary of texts."""
    tree = _parsed(path)
    for node in tree.body if tree is not None else []:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
            return {str(name): str(text) for name, text in ast.literal_eval(node.value).items()}
    return {}


def _parsed(path: Path) -> ast.Module | None:
    """A module's syntax tree; None when missing or not parseable."""
    with suppress(OSError, SyntaxError, ValueError):
        return ast.parse(path.read_bytes())
    return None


def _documented(node: _Documented, name: str, kind: str) -> Iterator[tuple[str, str, str]]:
    """A documented module, class or function, and its public members."""
    text = ast.get_docstring(node)
    if text:
        yield kind, name, f"{_head(node, name)}{text}"
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for item in node.body:
        if isinstance(item, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not (
            _is_private(item.name)
        ):
            inner = "class" if isinstance(item, ast.ClassDef) else "function"
            yield from _documented(item, f"{name}.{item.name}", inner)


def _head(node: _Documented, name: str) -> str:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"{name}({ast.unparse(node.args)})\n\n"
        case ast.ClassDef():
            return f"class {name}\n\n"
    return ""


def _public(owner: object) -> list[tuple[str, object]]:
    return [(name, value) for name, value in sorted(vars(owner).items()) if name[0] != "_"]


def _docstring(value: object) -> str:
    return inspect.cleandoc(value.__doc__ or "")


def _is_private(name: str) -> bool:
    return name.startswith("_") and name != "__init__"
