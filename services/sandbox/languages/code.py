"""What little of a source must be understood to compile and run it: names in it.

Every look is bounded to the beginning of the source and takes time linear in it; a source that
is not understood gets the usual names, and its compiler says what is wrong with it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

LOOKED_AT = 512 * 1024
"""Bytes of a source that are looked at."""

_IMPORTS_WITHIN = 64 * 1024

# An unclosed comment or text takes the rest: each byte is looked at once.
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
    """A type at the top level of a Java source."""

    name: str
    public: bool
    runs: bool = False


def java_names(code: bytes) -> Mapping[str, str]:
    """``file``: what a Java source must be called; ``main``: the class that is to be run.

    That is ``Main`` where there is one, else the first with a ``main`` method.
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
    """``main``: the object that runs: it extends App or has a ``main``, else the first one."""
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
    """``top``: the test bench by its usual name; without one all that nothing else uses runs."""
    return {"top": "tb"} if _TESTBENCH.search(_seen(code)) else {}


def with_php_tag(code: bytes) -> bytes:
    """The source with an opening tag: without one PHP prints it instead of running it."""
    return code if _PHP_TAG.search(code[:LOOKED_AT]) else b"<?php\n" + code


def _seen(code: bytes) -> bytes:
    """The source without its comments and texts."""
    return _UNSEEN.sub(b" ", code[:LOOKED_AT])


def _package(text: bytes) -> str:
    found = _PACKAGE.search(text)
    return f"{found[1].decode('ascii', 'replace')}." if found else ""
