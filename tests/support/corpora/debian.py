"""The long descriptions of Debian's packages, with the short ones as their headings."""

import re
from collections.abc import Iterator
from pathlib import Path

from infra.testing.corpora import DESCRIPTIONS
from tests.support.corpora.passage import CorpusMissing, Passage

LEAST_CHARACTERS = 80
_FIELD = "Description-en: "
_MARKUP = re.compile(r"[ \t]+")


def passages() -> Iterator[Passage]:
    """One passage per package, about 60,000; duplicates are dropped."""
    seen: set[str] = set()
    for path in _lists():
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            package, _, described = block.partition("\n")
            _, _, description = described.partition(_FIELD)
            heading, _, body = description.partition("\n")
            text = _plain(body)
            if len(text) < LEAST_CHARACTERS or text in seen:
                continue
            seen.add(text)
            name = package.removeprefix("Package: ")
            yield Passage(
                id=f"debian/{name}/{len(seen)}",
                title=name,
                text=text,
                heading=heading.strip(),
                metadata={"source": "debian", "letter": name[0], "characters": len(text)},
            )


def _lists() -> list[Path]:
    found = sorted(DESCRIPTIONS.glob("*Translation-en")) if DESCRIPTIONS.is_dir() else []
    if not found:
        raise CorpusMissing("package descriptions: python infra/testing/install.py fetches them")
    return found


def _plain(body: str) -> str:
    """Paragraphs of a description; a line of its own stays one where it is a list's."""
    paragraphs: list[str] = [""]
    for line in body.splitlines():
        content = _MARKUP.sub(" ", line).strip()
        if content == ".":
            paragraphs.append("")
        elif line.startswith("  "):
            paragraphs[-1] += f"\n{content}"
        else:
            paragraphs[-1] += f" {content}"
    return "\n".join(paragraph.strip() for paragraph in paragraphs if paragraph.strip())
