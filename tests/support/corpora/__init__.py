"""Real passages with queries, made at run time from the distribution's texts.

Each source is a module with ``passages()``, the same in the same order at every call: `debian`, the
descriptions of packages; `wordnet`, the glosses of a dictionary; `manuals`, the sections of manual
pages, in the languages that are installed. `synthetic` makes as many as are wanted. Nothing is kept
in the repository, and what is not there raises `CorpusMissing`.

    python -m tests.support.corpora debian corpus.jsonl --limit 20000 --queries queries.jsonl
"""
