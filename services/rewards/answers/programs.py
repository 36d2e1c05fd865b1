"""Finds the program in the text of a model."""

import ast
import builtins
import re
from collections.abc import Collection, Sequence
from itertools import chain
from sys import stdlib_module_names

from services.contracts.sandbox.programs import Language
from services.metrics.fences import Block, fenced_blocks

_NAMES = {
    Language.PYTHON: ("py", "python3", "py3"),
    Language.PYTHON_GPU: ("python", "py", "python3", "py3"),
    Language.PYTEST: ("python", "py", "python3", "py3"),
    Language.BASH: ("sh", "shell", "zsh"),
    Language.CPP: ("c++", "cxx", "cc", "c"),
    Language.NODEJS: ("javascript", "js", "node"),
    Language.JEST: ("javascript", "js", "typescript", "ts"),
    Language.TYPESCRIPT: ("ts",),
    Language.GO: ("golang",),
    Language.GO_TEST: ("go", "golang"),
    Language.JUNIT: ("java",),
    Language.RUST: ("rs",),
    Language.RUBY: ("rb",),
    Language.CSHARP: ("cs", "c#"),
    Language.KOTLIN_SCRIPT: ("kotlin", "kt", "kts"),
    Language.D_UT: ("d",),
    Language.VERILOG: ("systemverilog", "sv"),
    Language.LEAN: ("lean4",),
    Language.CUDA: ("cu", "c++", "cpp"),
}
"""What fences call a language, besides its name."""
_SESSION = re.compile(r"\s*(?:>>>|\$ |In \[\d*\]:)")
_DEFINITION = re.compile(r"^(?:async[ \t]+def|def|class)\b", re.MULTILINE)
_TEST_NAME = re.compile(r"tests?(?![A-Za-z])|Test|\w*_tests?\Z|\w*Tests?\Z")
_LIBRARIES = frozenset(
    (
        *("numpy", "scipy", "pandas", "sympy", "torch", "numba", "cupy", "triton", "sklearn"),
        *("networkx", "sortedcontainers", "gmpy2", "matplotlib", "pytest", "hypothesis"),
    )
)
"""What programs import as well as their tests."""
_PYTHON = frozenset({Language.PYTHON, Language.PYTHON_GPU})


def last_program(
    texts: Sequence[str],
    language: Language,
    *,
    defines: bool = False,
    names: Collection[str] = (),
) -> str | None:
    """The last fenced block of a language in texts of a model; null without one.

    A block without a language counts where none has the right one, and at last one of any other.
    An unclosed block at the end counts, a shell session does not. With ``names``, what tests need,
    the last of the blocks that define most of them is preferred. Otherwise a block of Python that
    only tests is not the program if there is another, and with ``defines``, for tests that call a
    Python function, a block that defines something is preferred to a later one that only uses it.
    """
    known = {language.value.lower(), *_NAMES.get(language, ())}
    blocks = [block for text in texts for block in fenced_blocks(text) if _is_code(block)]
    of_language = [block.content for block in blocks if block.language in known]
    unnamed = [block.content for block in blocks if not block.language]
    for found in (of_language, unnamed, [block.content for block in blocks]):
        if found:
            return _program_of(found, language, defines=defines, names=names)
    return None


def _program_of(
    found: Sequence[str], language: Language, *, defines: bool, names: Collection[str]
) -> str:
    programs = list(reversed(found))
    counts = [sum(_defines(program, name) for name in names) for program in programs]
    if any(counts):
        return programs[counts.index(max(counts))]
    if language in _PYTHON:
        programs = [each for each in programs if not _only_tests(each)] or programs
    defining = filter(_DEFINITION.search, programs) if defines else ()
    return next(chain(defining, programs))


def _defines(program: str, name: str) -> bool:
    """Whether a program defines a function or a class, a method included, or assigns a name."""
    word = re.escape(name)
    return bool(
        re.search(
            rf"^(?:[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+{word}\b"
            rf"|{word}[ \t]*(?::[^=\n]+)?=(?!=))",
            program,
            re.MULTILINE,
        )
    )


def _only_tests(program: str) -> bool:
    """Whether a block of Python is nothing but tests of another block.

    It asserts something, or has functions and classes that are named as tests are, and no others.
    It needs a name that it does not define itself, or a module, for that is what it tests, or it
    asserts and has no result, printed or returned. It reads no input. A program that checks its own
    input with an assertion, or whose function for a test case is called ``test``, is none.
    """
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    definitions = [
        each.name
        for each in tree.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    is_test = (
        all(map(_TEST_NAME.match, definitions))
        if definitions
        else any(isinstance(each, ast.Assert) for each in tree.body)
    )
    nodes = list(ast.walk(tree))
    return (
        is_test
        and not any(map(_reads_input, nodes))
        and (
            bool(needed_names([program]))
            or any(map(_imports_other, nodes))
            or (any(map(_asserts, nodes)) and not any(map(_has_result, nodes)))
        )
    )


def _reads_input(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="input" | "stdin", ctx=ast.Load()):
            return True
        case ast.Attribute(attr="stdin", ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Name(id="open"), args=[ast.Constant(value=0 | "/dev/stdin"), *_]):
            return True
        case ast.Import(names=names):
            return any(each.name == "fileinput" for each in names)
    return False


def _asserts(node: ast.AST) -> bool:
    match node:
        case ast.Assert():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name.startswith("assert")
    return False


def _has_result(node: ast.AST) -> bool:
    """Whether it prints what is not constant, writes to the output, or returns a value."""
    match node:
        case ast.Call(func=ast.Name(id="print"), args=printed):
            return not all(isinstance(each, ast.Constant) for each in printed)
        case ast.Return(value=value):
            return value is not None
        case ast.Name(id="stdout") | ast.Attribute(value=ast.Name(id="sys"), attr="stdout"):
            return isinstance(node.ctx, ast.Load)
    return False


def _imports_other(node: ast.AST) -> bool:
    """Whether it imports a module that is neither part of Python nor a known library, as tests do
    whose program is in a file."""
    match node:
        case ast.ImportFrom(module=name, level=level):
            return bool(level) or _is_other(name or "")
        case ast.Import(names=names):
            return any(_is_other(each.name) for each in names)
    return False


def _is_other(module: str) -> bool:
    name = module.partition(".")[0]
    return name not in stdlib_module_names and name not in _LIBRARIES


def _is_code(block: Block) -> bool:
    return bool(block.content.strip()) and not _SESSION.match(block.content)


def needed_names(tests: Sequence[str], setup: str | None = None) -> frozenset[str]:
    """The names that Python tests use, and neither they nor their setup define."""
    bound: set[str] = set(dir(builtins))
    needed: set[str] = set()
    for source in (setup or "", *tests):
        try:
            nodes = list(ast.walk(ast.parse(source)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for node in nodes:
            bound |= _bound(node)
        needed |= {
            node.id
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
    return frozenset(needed - bound)


def _bound(node: ast.AST) -> set[str]:
    """The names that a node gives a meaning."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Name(ctx=ast.Store()):
            return {node.id}
        case ast.arg():
            return {node.arg}
        case ast.alias():
            return {(node.asname or node.name).partition(".")[0]}
        case ast.ExceptHandler(name=str(name)):
            return {name}
    return set()
