"""Writes a corpus and its queries to files: ``python -m tests.support.corpora SOURCE FILE``."""

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from tests.support.corpora import debian, manuals, synthetic, wordnet
from tests.support.corpora.passage import Passage, write_rows
from tests.support.corpora.queries import heading_queries, write_queries

SOURCES: dict[str, Callable[[], Iterator[Passage]]] = {
    "debian": debian.passages,
    "wordnet": wordnet.passages,
    "manuals": manuals.passages,
    "manuals-zh": lambda: manuals.passages("zh_CN"),
    "synthetic": lambda: synthetic.passages(10**9),
}


def main() -> None:
    """Write both files and print their sizes."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.corpora")
    parser.add_argument("source", choices=SOURCES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int, default=1_000_000)
    parser.add_argument("--queries", type=Path, help="write the headings here")
    given = parser.parse_args()
    passages = SOURCES[given.source]
    print(f"{write_rows(islice(passages(), given.limit), given.file)} passages")
    if given.queries:
        queries = heading_queries(islice(passages(), given.limit), count=given.limit)
        write_queries(queries, given.queries)
        print(f"{len(queries)} queries")


if __name__ == "__main__":
    main()
