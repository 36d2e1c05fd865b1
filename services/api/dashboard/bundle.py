"""One script from the dashboard's modules.

A page of many modules is only as reliable as the least lucky of its requests: browsers abort every
request in flight when a network interface comes or goes. One classic script is one request, which
can be retried; browsers remember the failure of a module for as long as the page lives.
"""

import posixpath
import re
from collections.abc import Mapping

_COMMENT = re.compile(r"^[ \t]*(?:/\*.*?\*/|//[^\n]*\n)", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r'^import\s+([^";]+?)\s+from\s+"([^"]+)";$', re.MULTILINE)
_NAMED = re.compile(r"(?:(\w+)\s*,\s*)?(?:\{([^}]*)\}|(\w+))")
_DECLARATION = re.compile(
    r"^export (?=(?:async )?(?:function\*?|class|const) +(\w+)|(?:async )?function\* *(\w+))",
    re.MULTILINE,
)
_EXPORT_LIST = re.compile(r"^export \{([^}]*)\};$", re.MULTILINE)
_LEFT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


class BundleError(Exception):
    """A module that cannot be bundled: a missing or circular import, or an unsupported form."""


def bundle(sources: Mapping[str, str], entry: str) -> str:
    """A classic script that runs the modules that ``entry`` imports, then ``entry``.

    ``sources`` are the modules by path. Each becomes a function that is called once and returns its
    exports, so that names of modules stay apart. Only imports at the start of a line, of names or
    of a default, and exports of declarations or lists of names are supported; all imports are
    relative and without cycles. Comments that begin a line are left out.
    """
    numbers: dict[str, int] = {}
    parts: list[str] = []

    def add(path: str, importers: tuple[str, ...]) -> int:
        if path in importers:
            raise BundleError(f"circular import: {' -> '.join((*importers, path))}")
        if path not in sources:
            raise BundleError(f"{importers[-1] if importers else 'the page'} imports {path}")
        if path not in numbers:
            code = _COMMENT.sub("", sources[path])
            imported = {
                name: add(
                    posixpath.normpath(posixpath.join(posixpath.dirname(path), name)),
                    (*importers, path),
                )
                for name in (one[2] for one in _IMPORT.finditer(code))
            }
            numbers[path] = len(numbers)
            parts.append(_function(path, numbers[path], code, imported))
        return numbers[path]

    add(entry, ())
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def _function(path: str, number: int, code: str, imported: Mapping[str, int]) -> str:
    exported: dict[str, str] = {}

    def declare(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        exported[name] = name
        return ""

    def listed(match: re.Match[str]) -> str:
        exported.update((public, own) for own, public in _renamed(match[1]))
        return ""

    body = _IMPORT.sub(lambda match: _binding(match, imported[match[2]]), code)
    body = _EXPORT_LIST.sub(listed, _DECLARATION.sub(declare, body))
    if left := _LEFT.search(body):
        raise BundleError(f"{path}: {left[0]!r} cannot be bundled")
    names = ", ".join(f"{public}: {own}" for public, own in exported.items())
    return f"// {path}\nconst m{number} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


def _binding(match: re.Match[str], number: int) -> str:
    clause = _NAMED.fullmatch(match[1].strip())
    if clause is None:
        raise BundleError(f"{match[0]!r} cannot be bundled")
    names = [("default", default) for default in (clause[1], clause[3]) if default]
    names += _renamed(clause[2] or "")
    return f"const {{ {', '.join(f'{theirs}: {own}' for theirs, own in names)} }} = m{number};"


def _renamed(names: str) -> list[tuple[str, str]]:
    """The pairs of a list such as `a, b as c`: (a, a) and (b, c)."""
    words = [each.split() for each in names.split(",") if each.strip()]
    return [(each[0], each[-1]) for each in words]
