"""The glosses of WordNet, headed by the words that have the meaning."""

from collections.abc import Iterator

from infra.testing.corpora import DICTIONARY
from tests.support.corpora.passage import CorpusMissing, Passage

PARTS = ("noun", "verb", "adj", "adv")


def passages() -> Iterator[Passage]:
    """One passage per meaning, about 117,000; its words are the heading and not in the text."""
    if not DICTIONARY.is_dir():
        raise CorpusMissing("WordNet: python infra/testing/install.py fetches it")
    for part in PARTS:
        with open(DICTIONARY / f"data.{part}", encoding="utf-8") as lines:
            for line in lines:
                if not line.startswith("  "):  # the license does
                    yield _passage(part, line)


def _passage(part: str, line: str) -> Passage:
    data, _, gloss = line.partition(" | ")
    fields = data.split(" ")
    count = int(fields[3], 16)
    words = [word.partition("(")[0].replace("_", " ") for word in fields[4 : 4 + 2 * count : 2]]
    return Passage(
        id=f"wordnet/{part}/{fields[0]}",
        title=f"{part} {fields[0]}",
        text=gloss.strip(),
        heading=", ".join(words),
        metadata={"source": "wordnet", "part": part, "words": count},
    )
