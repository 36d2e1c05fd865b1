"""The manual pages of this machine, a passage for each stretch of a section."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.corpora.passage import CorpusMissing, Passage

FOLDER = Path("/usr/share/man")
CHARACTERS = 900
"""A passage ends with the line that brings it here."""
LEAST_CHARACTERS = 80

_SECTION = re.compile(r"^\.S[Hh] +(.*)$")
_SKIPPED = re.compile(
    r"^(?:['.]\\\"|\.(?:TH|ad|nh|hy|de|ie|el|if|nr|ds|tr|in|ta|so|ne|ti|sp|ft|IX)\b)"
)
_MACRO = re.compile(r"^[.'][A-Za-z]{1,3}\b ?|^[.'][^A-Za-z]*$")
_FONT = re.compile(r"\\f(?:\[[^]]*\]|\(..|.)|\\s[-+]?\d|\\[&|^,/%:]|\\[mn]\[[^]]*\]")
_GLYPHS = {
    "-": "-",
    "(aq": "'",
    "(dq": '"',
    "(bu": "•",
    "(em": "—",
    "(en": "\N{EN DASH}",
    "e": "\\",
}
_GLYPH = re.compile(r"\\(\(..|[-e ~0]|\[[^]]*\]|\*\(..|\*\[[^]]*\])")


def passages(language: str = "") -> Iterator[Passage]:
    """Passages of the pages in a language (``zh_CN``, ``de``, ...), English when none is named.

    Some 130,000 on a machine with development packages; what several pages say alike comes once.
    """
    folders = sorted((FOLDER / language).glob("man[1-9]"))
    pages = [page for folder in folders for page in sorted(folder.glob("*.gz"))]
    if not pages:
        raise CorpusMissing(f"manual pages: none in {FOLDER / language}; the package is manpages")
    seen: set[int] = set()
    for page in pages:
        for passage in _passages(page, language):
            if (same := hash(passage.text)) not in seen:
                seen.add(same)
                yield passage


def _passages(page: Path, language: str) -> Iterator[Passage]:
    name, _, number = page.name.removesuffix(".gz").rpartition(".")
    if page.is_symlink():  # another name of a page that comes by its own
        return
    source = gzip.decompress(page.read_bytes()).decode("utf-8", errors="replace")
    pieces = list(_pieces(source))
    heading = _summary(pieces[0][1]) if pieces else ""
    described = False
    for position, (section, text) in enumerate(pieces[1:]):
        if len(text) < LEAST_CHARACTERS:
            continue
        yield Passage(
            id="/".join(filter(None, ("manuals", language, page.name, str(position)))),
            title=f"{name}({number}) {section}",
            text=text,
            # The summary of a page is that of the first passage that describes it.
            heading="" if described or heading in text else heading,
            metadata={"source": "manuals", "language": language or "en", "section": number[:1]},
        )
        described = True


def _pieces(source: str) -> Iterator[tuple[str, str]]:
    """Sections of a page with their text, long ones in pieces."""
    section, lines, length = "", list[str](), 0
    for line in source.splitlines():
        begins = _SECTION.match(line)
        if begins or length > CHARACTERS:
            if lines:
                yield section, "\n".join(lines)
            lines, length = [], 0
        if begins:
            section = _plain(begins[1]).strip('" ')
        elif not section or _SKIPPED.match(line):  # what is before the first one is set-up
            continue
        elif text := _plain(_MACRO.sub("", line)):
            lines.append(text)
            length += len(text)
    if lines:
        yield section, "\n".join(lines)


def _plain(line: str) -> str:
    line = _GLYPH.sub(lambda found: _GLYPHS.get(found[1], " "), _FONT.sub("", line))
    return " ".join(line.replace('"', " ").split())


def _summary(name_section: str) -> str:
    """What follows the names: ``ls - list directory contents``."""
    return " ".join(name_section.split()).partition(" - ")[2]
