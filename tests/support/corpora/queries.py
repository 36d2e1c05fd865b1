"""Queries whose right answers are known."""

import json
import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.support.corpora.passage import Passage


@dataclass(frozen=True)
class Query:
    """A query and the ids of the passages that answer it."""

    text: str
    relevant: frozenset[str]


def heading_queries(passages: Iterable[Passage], count: int, seed: int = 0) -> list[Query]:
    """The headings of ``count`` passages, all different; passages with one heading answer it all.

    Of fewer headings than asked for all are returned.
    """
    answers: dict[str, set[str]] = {}
    for passage in passages:
        if passage.heading:
            answers.setdefault(passage.heading, set()).add(passage.id)
    chosen = random.Random(seed).sample(sorted(answers), min(count, len(answers)))
    return [Query(heading, frozenset(answers[heading])) for heading in chosen]


def write_queries(queries: Iterable[Query], path: Path) -> None:
    """Write them as JSON Lines of ``{"query", "relevant"}``."""
    with open(path, "w", encoding="utf-8") as file:
        for query in queries:
            row = {"query": query.text, "relevant": sorted(query.relevant)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
