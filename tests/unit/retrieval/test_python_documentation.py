"""The default index: Python's own documentation, found by what a person would ask."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.default_index.building import DEFAULT_INDEX
from services.retrieval.default_index.command import ensure_default_index
from services.retrieval.store.index import Index
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from tests.support.processes import REPOSITORY

# Two processes parse the standard library; minutes on a busy machine.
pytestmark = pytest.mark.timeout(300)

# Two processes parse the standard library; minutes on a busy machine.
pytestmark = pytest.mark.timeout(300)

MAKE = [sys.executable, "-m", "services.retrieval.default_index.command"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which two processes made the index at the same time."""
    root = tmp_path_factory.mktemp("indexes")
    makers = [subprocess.Popen([*MAKE, str(root)], cwd=REPOSITORY) for _ in range(2)]
    assert [maker.wait(300) for maker in makers] == [0, 0]
    return root


@pytest.fixture(scope="module")
def index(root: Path) -> Iterator[Index]:
    opened = IndexStore(root).open(DEFAULT_INDEX)
    yield opened.index
    opened.index.close()


def test_concurrent_builders_make_one_version(root: Path) -> None:
    folder = root / DEFAULT_INDEX
    assert sum(path.name.startswith("v") for path in folder.iterdir()) == 1
    assert list(root.iterdir()) == [folder]


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("serialize object to a JSON formatted string", "json.dumps"),
        ("temporary directory that removes itself", "tempfile.TemporaryDirectory"),
        ("remove the longest common leading whitespace of lines", "textwrap.dedent"),
        ("the with statement", "with"),
        ("replace all occurrences of a substring", "str.replace"),
    ],
)
def test_a_question_finds_its_documentation(index: Index, question: str, title: str) -> None:
    (hits,) = index.search([Query(question, IndexMode.BM25, 5)])

    assert any(hit.id.partition("#")[0] == title for hit in hits), [hit.id for hit in hits]


def test_an_existing_index_is_left_unchanged(root: Path) -> None:
    version = IndexStore(root).version(DEFAULT_INDEX)

    ensure_default_index(root)

    assert IndexStore(root).version(DEFAULT_INDEX) == version


def test_reading_the_documentation_imports_nothing() -> None:
    script = (
        "import sys; from services.retrieval.default_index.documentation import rows; "
        "before = set(sys.modules); list(rows()); print(*set(sys.modules) - before)"
    )
    command = [sys.executable, "-c", script]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)

    assert {"turtle", "tkinter", "antigravity", "this"}.isdisjoint(run.stdout.split())


def test_there_are_thousands_of_short_passages(index: Index) -> None:
    passages = [json.loads(row) for row in index.documents(None, 100_000)]

    assert len(passages) > 3000
    assert max(len(passage["text"].encode()) for passage in passages) <= 1000
