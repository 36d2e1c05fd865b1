"""After any changes an index holds what a dictionary would."""

import json
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import Filter
from services.retrieval.corpus.document import Document
from services.retrieval.store.changes import Changes
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage

IDS = st.sampled_from([*"abcdef", "ü", "x y"])
WORDS = ("red", "green", "blue")


def colored(key: str, word: str) -> Document:
    return passage(key, f"a {word} thing", word=word)


class ChangedIndex(RuleBasedStateMachine):
    """An index that two processes have open, and the dictionary it should be like."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = IndexStore(self.folder)
        self.model = {"a": "red", "b": "green"}
        build_index(self.store, "test", [colored(*item) for item in self.model.items()])
        self.indexes = [self.store.open("test").index, self.store.open("test").index]

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(
        one=st.integers(0, 1),
        put=st.lists(st.tuples(IDS, st.sampled_from(WORDS)), max_size=4),
    )
    def put(self, one: int, put: list[tuple[str, str]]) -> None:
        Changes(self.indexes[one]).put([colored(*item) for item in put])
        self.model.update(put)

    @rule(one=st.integers(0, 1), ids=st.lists(IDS, max_size=3))
    def delete(self, one: int, ids: list[str]) -> None:
        deleted = Changes(self.indexes[one]).delete(ids)
        assert deleted == len(set(ids) & self.model.keys())
        for key in ids:
            self.model.pop(key, None)

    @rule(one=st.integers(0, 1))
    def open_again(self, one: int) -> None:
        self.indexes[one].close()
        self.indexes[one] = self.store.open("test").index

    @invariant()
    def it_has_what_the_dictionary_has(self) -> None:
        for index in self.indexes:
            rows = [json.loads(one) for one in index.documents(None, 100)]
            assert {row["id"]: row["metadata"]["word"] for row in rows} == self.model
            assert index.count == len(self.model)
            for word in WORDS:
                expected = {key for key, value in self.model.items() if value == word}
                wanted = Filter(equals={"word": word})
                by_word, by_filter = index.search(
                    [
                        Query(word, IndexMode.BM25, 10),
                        Query("thing", IndexMode.BM25, 10, filter=wanted),
                    ]
                )
                assert {hit.id for hit in by_word} == expected
                assert {hit.id for hit in by_filter} == expected


TestChangedIndex = ChangedIndex.TestCase
TestChangedIndex.settings = settings(
    max_examples=10,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
