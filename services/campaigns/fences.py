"""Fenced blocks of Markdown, as CommonMark defines them.

A block ends at a fence on a line of its own that is at least as long as its first: scripts contain
shorter fences, and fences inside of strings. A last block without an end reaches to the end.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

MOST_FENCES = 32
"""Closing fences that are tried, each with a parse of the script before it."""

_OPENING = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>.*)")


@dataclass(frozen=True)
class Block:
    """The text of a block with its final newline; ``language`` is lower case, "" without one."""

    language: str
    text: str


def blocks_in(text: str) -> Iterator[Block]:
    """The fenced blocks of a text, in order."""
    lines = text.replace("\r\n", "\n").split("\n")
    number = 0
    while number < len(lines):
        opening = _OPENING.fullmatch(lines[number])
        number += 1
        if opening is None or (opening["fence"][0] == "`" and "`" in opening["info"]):
            continue
        language = opening["info"].strip().partition(" ")[0].lower()
        inside = _without_margin(lines[number:], len(opening["indent"]))
        length = _length(inside, opening["fence"], language)
        number += length + 1
        yield Block(language, "".join(f"{line}\n" for line in inside[:length]))


def _length(lines: list[str], fence: str, language: str) -> int:
    """The lines of a block before its closing fence: the first one, or for Python the first at
    which the script is complete, since a string in it may hold a fence of its own."""
    closing = re.compile(rf"[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*")
    ends = [number for number, line in enumerate(lines) if closing.fullmatch(line)]
    if language == "python":
        for end in ends[:MOST_FENCES]:
            if _is_python("\n".join(lines[:end])):
                return end
    return ends[0] if ends else len(lines)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _without_margin(lines: list[str], most: int) -> list[str]:
    """The lines without the indentation that the opening fence has, as in a list."""
    return [line[min(most, len(line) - len(line.lstrip(" \t"))) :] for line in lines]


def last_blocks(text: str, languages: Collection[str]) -> dict[str, str]:
    """The last block of each of these languages that the text has."""
    found = {block.language: block.text for block in blocks_in(text)}
    return {language: found[language] for language in languages if language in found}
