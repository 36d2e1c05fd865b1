"""Parses as much of a source as compiling and running it needs.

Parsing is bounded to the beginning of the source and takes linear time. A source that cannot be
parsed gets default names, and its compiler reports what is wrong.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

LOOKED_AT = 512 * 1024
"""Bytes of a source that are parsed."""

_IMPORTS_WITHIN = 64 * 1024

# An unclosed comment or literal extends to the end, so that each byte is scanned once.
_UNSEEN = re.compile(
    rb"//[^\n]*+"
    rb"|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
    rb'|"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?'
    rb'|"(?:[^"\\\n]|\\.)*+"?'
    rb"|'(?:[^'\\\n]|\\.)*+'?",
    re.DOTALL,
)
_PYTHON_IMPORT = re.compile(
    rb"(?:^|;)[ \t]*+(?:import[ \t]++([^\n;#]++)|from[ \t]++(\w++)[\w.]*+[ \t]++import\b)",
    re.MULTILINE,
)
_MODULE = re.compile(rb"[ \t(\\]*+(\w++)")
_PACKAGE = re.compile(rb"^\s*+package\s++([\w.]++)", re.MULTILINE)
_JAVA_WORDS = re.compile(
    rb"[{};]|\bpublic\b|\b(?:class|interface|enum|record)\s++([A-Za-z_$][\w$]*+)"
    rb"|\bvoid\s++(main)\s*+\("
)
_SCALA_WORDS = re.compile(
    rb"[{}]|\bobject\s++(\w++)(\s++extends\s++(?:\w++\.)*+App\b)?|\bdef\s++(main)\b"
    rb"|@main\s++def\s++(\w++)"
)
_TESTBENCH = re.compile(rb"\bmodule\s++tb\b")
_GO_COMMENT = rb"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/"
_GO_PATH = rb'"[^"\n]*+"|`[^`]*+`'
_GO_SPACE = rb"(?:[\s;]++|%b)*+" % _GO_COMMENT
_GO_NAME = rb"[\w\x80-\xff]++"
_GO_IMPORT = rb"(?:(?:%b|\.)%b)?+(?:%b)%b" % (_GO_NAME, _GO_SPACE, _GO_PATH, _GO_SPACE)
_GO_IMPORTS = re.compile(
    rb"(?:\xef\xbb\xbf)?+%(space)bpackage\b%(space)b%(name)b%(space)b"
    rb"(?:import\b%(space)b(?:%(import)b|\(%(space)b(?:%(import)b)*+\)%(space)b))*+"
    % {b"space": _GO_SPACE, b"name": _GO_NAME, b"import": _GO_IMPORT}
)
"""The beginning of a source, which alone has imports."""
_GO_PATHS = re.compile(rb"%b|(%b)" % (_GO_COMMENT, _GO_PATH))
_CSHARP_START = re.compile(
    rb"(?:\xef\xbb\xbf)?+(?:\s++|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/"
    rb"|#[ \t]*+(?:define|undef)\b[^\n]*+\n|extern\s++alias\s++\w++\s*+;)*+"
)
_IMPLICIT_USINGS = b"".join(
    b"using %s; " % name
    for name in (
        *(b"System", b"System.Collections.Generic", b"System.IO", b"System.Linq"),
        *(b"System.Threading", b"System.Threading.Tasks"),
    )
)
_PHP_TAG = re.compile(rb"<\?(?:php\b|=)", re.IGNORECASE)


def python_imports(code: bytes) -> frozenset[str]:
    """The top-level modules that a Python source seems to import."""
    modules: set[str] = set()
    for listed, origin in _PYTHON_IMPORT.findall(code[:_IMPORTS_WITHIN]):
        if origin:
            modules.add(origin.decode("utf-8", "replace"))
        for item in listed.split(b","):
            if name := _MODULE.match(item):
                modules.add(name[1].decode("utf-8", "replace"))
    return frozenset(modules)


@dataclass
class _Type:
    """A top-level type of a Java source."""

    name: str
    public: bool
    runs: bool = False


def java_names(code: bytes) -> Mapping[str, str]:
    """``file``: the required name of a Java source; ``main``: the class to run.

    The class is ``Main`` if it exists, else the first with a ``main`` method.
    """
    text = _seen(code)
    types = _java_types(text)
    public = next((found.name for found in types if found.public), "")
    running = [found.name for found in types if found.runs]
    main = "Main"
    if types and "Main" not in (running or [found.name for found in types]):
        main = (running or [public or types[0].name])[0]
    return {"file": public or main, "main": _package(text) + main}


def _java_types(text: bytes) -> list[_Type]:
    types: list[_Type] = []
    depth = 0
    public = False
    for word in _JAVA_WORDS.finditer(text):
        match word[0]:
            case b"{":
                depth += 1
            case b"}":
                depth = max(0, depth - 1)
            case b"public":
                public = True
                continue
            case b";":
                pass
            case _ if word[2]:
                if types and depth == 1:
                    types[-1].runs = True
            case _ if depth == 0:
                types.append(_Type(word[1].decode(), public))
        public = False
    return types


def scala_names(code: bytes) -> Mapping[str, str]:
    """``main``: the object to run; it extends App or has a ``main``, or is the first one."""
    text = _seen(code)
    first = current = ""
    depth = 0
    for word in _SCALA_WORDS.finditer(text):
        name, app, main, annotated = (part.decode() if part else "" for part in word.groups())
        if annotated:
            return {"main": _package(text) + annotated}
        if word[0] in b"{}":
            depth = depth + 1 if word[0] == b"{" else max(0, depth - 1)
        elif name and depth == 0:
            first = first or name
            current = name
            if app:
                break
        elif main and current:
            break
    else:
        current = first
    return {"main": _package(text) + (current or "Main")}


def verilog_names(code: bytes) -> Mapping[str, str]:
    """``top``: the test bench, if it has the usual name; otherwise every unused module runs."""
    return {"top": "tb"} if _TESTBENCH.search(_seen(code)) else {}


def go_names(code: bytes) -> Mapping[str, str]:
    """``modules`` and ``flags``: packages installed by Debian are found only without modules."""
    imports = _GO_IMPORTS.match(code[:_IMPORTS_WITHIN])
    paths = _GO_PATHS.findall(imports[0]) if imports else []
    # As Go tells its own packages from others.
    if any(b"." in path.partition(b"/")[0] for path in paths):
        return {"modules": "off"}
    return {"modules": "on", "flags": "-mod=mod"}


def with_implicit_usings(code: bytes) -> bytes:
    """C# source with the implicit usings of .NET's SDK, after anything that must come first."""
    start = _CSHARP_START.match(code)
    at = start.end() if start else 0
    return code[:at] + _IMPLICIT_USINGS + code[at:]


def with_php_tag(code: bytes) -> bytes:
    """Add the opening tag, without which PHP would print the source."""
    return code if _PHP_TAG.search(code[:LOOKED_AT]) else b"<?php\n" + code


def _seen(code: bytes) -> bytes:
    """The source without comments and literals."""
    return _UNSEEN.sub(b" ", code[:LOOKED_AT])


def _package(text: bytes) -> str:
    found = _PACKAGE.search(text)
    return f"{found[1].decode('ascii', 'replace')}." if found else ""
