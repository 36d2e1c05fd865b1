"""Finds the program in the text of a model."""

import re
from collections.abc import Sequence
from itertools import chain

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


def last_program(texts: Sequence[str], language: Language, *, defines: bool = False) -> str | None:
    """The last fenced block of a language in texts of a model; null without one.

    A block without a language counts where none has the right one, and at last one of any other.
    An unclosed block at the end counts, a shell session does not. With ``defines``, for tests that
    call a Python function, a block that defines something is preferred to a later one that only
    uses it.
    """
    names = {language.value.lower(), *_NAMES.get(language, ())}
    blocks = [block for text in texts for block in fenced_blocks(text) if _is_code(block)]
    of_language = [block.content for block in blocks if block.language in names]
    unnamed = [block.content for block in blocks if not block.language]
    for found in (of_language, unnamed, [block.content for block in blocks]):
        if found:
            defining = filter(_DEFINITION.search, reversed(found)) if defines else ()
            return next(chain(defining, reversed(found)))
    return None


def _is_code(block: Block) -> bool:
    return bool(block.content.strip()) and not _SESSION.match(block.content)
