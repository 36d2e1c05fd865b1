"""Fenced blocks of the documentation, for tests that run them.

A shell or Python block is run unless a comment above it says otherwise:
``<!-- not run: reason -->``, or ``<!-- stack: reason -->`` for the start of the stack itself.
"""

import re
from dataclasses import dataclass

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN = {"bash", "python"}


@dataclass(frozen=True)
class Block:
    """A fenced block and the text of the comment above it, if any."""

    language: str
    code: str
    mark: str

    @property
    def is_run(self) -> bool:
        """Whether a test has to run it."""
        return self.language in RUN and not self.mark.startswith(("not run: ", "stack: "))


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    return [
        Block(found["language"], found["code"], found["mark"] or "")
        for found in _BLOCK.finditer(page)
    ]


def commands_of(block: Block) -> list[str]:
    """Split a shell block into commands; a quoted text may span lines. Comments are dropped."""
    commands: list[str] = []
    for line in block.code.splitlines():
        if commands and commands[-1].count("'") % 2:
            commands[-1] += f"\n{line}"
        elif stripped := re.sub(r"\s+# .*$", "", line).strip():
            commands.append(stripped)
    return commands


def without_code_blocks(page: str) -> str:
    """Return a page without its fenced and indented code."""
    prose = _BLOCK.sub("", page)
    return "\n".join(line for line in prose.splitlines() if not line.startswith("    "))
