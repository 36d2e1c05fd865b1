"""What families of models want before a query and before a passage."""

import re
from dataclasses import dataclass

_TASK = "Given a web search query, retrieve relevant passages that answer the query"


@dataclass(frozen=True)
class Prefixes:
    """Text that is put before every query and every passage."""

    query: str = ""
    passage: str = ""


# The first pattern that is found in a model's name tells its family.
_FAMILIES: tuple[tuple[re.Pattern[str], Prefixes], ...] = tuple(
    (re.compile(rf"(?:^|[\s/_.-])(?:{pattern})", re.IGNORECASE), prefixes)
    for pattern, prefixes in (
        (r"e5[\w.-]*-instruct|e5-mistral", Prefixes(query=f"Instruct: {_TASK}\nQuery: ")),
        (r"e5-", Prefixes(query="query: ", passage="passage: ")),
        (r"bge-m3", Prefixes()),
        (r"bge-[\w.-]*zh", Prefixes(query="为这个句子生成表示以用于检索相关文章：")),  # noqa: RUF001
        (r"bge-", Prefixes("Represent this sentence for searching relevant passages: ")),
        (r"gte-[\w.-]*instruct", Prefixes(query=f"Instruct: {_TASK}\nQuery: ")),
    )
)


def prefixes_of(name: str) -> Prefixes:
    """The prefixes for a model of this name; none for a family that is not known or wants none."""
    return next((prefixes for pattern, prefixes in _FAMILIES if pattern.search(name)), Prefixes())
