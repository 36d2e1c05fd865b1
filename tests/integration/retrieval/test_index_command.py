"""``temper index``: indexes on this machine, without a running stack."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import pytest

from services.retrieval.builder.encoding import running_encoder
from services.retrieval.encoder.specification import EncoderSpecification
from services.retrieval.store.store import IndexStore
from temper.cli.exit_codes import ExitCode
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.search.index_building import IndexFolder, rows
from tests.support.stack import DEADLINE, Home, home_in
from tests.support.waiting import wait_for


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path / "home") as home:
        yield home


@pytest.fixture
def folder(home: Home) -> IndexFolder:
    """The indexes of the home folder."""
    return IndexFolder(home.path)


def answer(home: Home, *arguments: str) -> Any:
    """The JSON output of a command."""
    run = home.run("index", *arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_an_index_can_be_created_changed_and_dropped(home: Home, folder: IndexFolder) -> None:
    corpus = folder.corpus("corpus.jsonl", rows(100))
    more = folder.corpus(
        "more.jsonl", [{"id": "passage-7", "text": "new"}, {"id": "x", "text": "y"}]
    )

    created = home.run("index", "create", "library", "--corpus", str(corpus))
    added = answer(home, "add", "library", "--corpus", str(more))
    deleted = answer(home, "delete", "library", "passage-1", "passage-2", "unknown")
    (listed,) = answer(home, "list")["indexes"]
    shown = home.run("index", "show", "library").stdout

    found = answer(home, "search", "library", "new", "--topk", "1")

    assert [hit["document"]["id"] for hit in found["hits"]] == ["passage-7"]
    assert created.stdout.startswith("built library")
    assert "100 documents" in created.stdout
    assert (added["changed"], added["documents"]) == (2, 101)
    assert (deleted["changed"], deleted["documents"]) == (2, 99)
    assert (listed["name"], listed["mode"], listed["documents"]) == ("library", "bm25", 99)
    assert "documents  99" in shown
    opened = IndexStore(home.path / "indexes").open("library").index
    replaced = opened.document("passage-7")
    assert replaced is not None
    assert json.loads(replaced)["text"] == "new"
    opened.close()

    assert answer(home, "drop", "library") == {"index": "library", "deleted": True}
    assert answer(home, "list") == {"indexes": []}


def test_a_folder_of_text_becomes_an_index(home: Home, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    (texts / "start.md").write_text("# Start\n\nFirst steps.")

    built = answer(home, "create", "notes", "--corpus", str(texts), "--language", "none")

    assert built["metrics"]["documents"] == 1
    assert answer(home, "show", "notes")["language"] is None


def test_corpus_errors_are_listed_and_the_index_is_unchanged(
    home: Home, folder: IndexFolder
) -> None:
    answer(home, "create", "library", "--corpus", str(folder.corpus("good.jsonl", rows(5))))
    bad = folder.corpus("bad.jsonl", [*rows(2), {"id": "x"}, {"id": "passage-0", "text": "again"}])

    run = home.run("index", "create", "library", "--corpus", str(bad))

    assert run.returncode == ExitCode.FAILED
    assert "bad.jsonl: row 3: contents is missing (or text, in its place)\n" in run.stderr
    assert "bad.jsonl: row 4: id 'passage-0' is also that of row 1\n" in run.stderr
    assert run.stderr.splitlines()[-1].startswith("temper: error: bad.jsonl: row 3: ")
    assert folder.ids("library") == [f"passage-{number}" for number in range(5)]


def test_additions_need_ids_and_are_all_or_nothing(home: Home, folder: IndexFolder) -> None:
    answer(home, "create", "library", "--corpus", str(folder.corpus("good.jsonl", rows(5))))
    bad = folder.corpus("bad.jsonl", [{"id": "fine", "text": "x"}, {"text": "no id"}])

    run = home.run("index", "add", "library", "--corpus", str(bad))

    assert run.returncode == ExitCode.FAILED
    assert "row 2: id is missing" in run.stderr
    assert len(folder.ids("library")) == 5


@pytest.mark.runtime
def test_published_vectors_become_an_index(home: Home, folder: IndexFolder) -> None:
    installed_runtime("encoder")
    home.variables["TEMPER_RUNTIMES"] = str(FOLDER)
    corpus = folder.corpus("wiki-18.jsonl", rows(30))
    texts = [f'"passage {number}"\npassage {number}' for number in range(30)]
    with running_encoder(EncoderSpecification(), FOLDER, folder.path / "log") as encoder:
        published = encoder.encode(texts)
    index = faiss.IndexFlatIP(published.shape[1])
    index.add(published)
    file = folder.path / "e5_Flat.index"
    faiss.write_index(index, str(file))
    create = ("create", "wiki", "--corpus", str(corpus), "--encoder", "minilm", "--vectors")

    built = answer(home, *create, str(file))
    found = answer(home, "search", "wiki", "passage 17", "--mode", "dense", "--topk", "1")
    file.write_bytes(file.read_bytes()[:-8])
    truncated = home.run("index", *create, str(file))

    assert built["metrics"]["documents"] == 30
    assert [hit["document"]["id"] for hit in found["hits"]] == ["passage-17"]
    assert truncated.returncode == ExitCode.FAILED
    assert "e5_Flat.index: has 46,117 bytes" in truncated.stderr


def test_a_damaged_index_does_not_hide_the_others(home: Home, folder: IndexFolder) -> None:
    corpus = str(folder.corpus("corpus.jsonl", rows(5)))
    answer(home, "create", "damaged", "--corpus", corpus)
    answer(home, "create", "good", "--corpus", corpus)
    (manifest,) = (folder.indexes / "damaged").glob("v*/manifest.json")
    manifest.write_text("{")

    damaged, good = answer(home, "list")["indexes"]

    assert str(manifest) in damaged["problem"]
    assert (good["documents"], good["problem"]) == (5, None)
    assert home.run("index", "show", "damaged").returncode == ExitCode.FAILED


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["show", "absent"], "(index_not_found)"),
        (["drop", "absent"], "(index_not_found)"),
        (["show", "../etc"], "must have 1 to 64 of a-z"),
        (["create", "x", "--corpus", "/absent"], "does not exist"),
        (["create", "x", "--corpus", "/etc/os-release", "--vectors", "/etc"], "needs --encoder"),
    ],
)
def test_a_missing_index_is_a_one_line_error(home: Home, arguments: list[str], told: str) -> None:
    run = home.run("index", *arguments)

    assert run.returncode in (ExitCode.FAILED, ExitCode.USAGE)
    assert told in run.stderr
    assert "Traceback" not in run.stderr


def test_a_build_interrupted_by_ctrl_c_resumes(home: Home, folder: IndexFolder) -> None:
    corpus = folder.corpus("corpus.jsonl", rows(25_000))
    places = folder.indexes / "library" / "building" / "passages" / "places"
    process = home.start("index", "create", "library", "--corpus", str(corpus))
    wait_for(lambda: places.exists() and places.stat().st_size > 0, "something is built", DEADLINE)

    process.send_signal(signal.SIGINT)

    assert process.wait(DEADLINE) == ExitCode.INTERRUPTED
    again = home.run("index", "create", "library", "--corpus", str(corpus))
    assert again.returncode == 0
    assert "resuming an earlier attempt" in again.stderr
    assert folder.store.summary("library").documents == 25_000


def test_a_build_stops_with_its_command(home: Home, folder: IndexFolder) -> None:
    corpus = folder.corpus("corpus.jsonl", rows(100_000))
    building = folder.indexes / "library" / "building"
    process = home.start("index", "create", "library", "--corpus", str(corpus))
    wait_for(building.exists, "the build has begun", DEADLINE)

    process.kill()

    with folder.store.writing("library", DEADLINE):  # the index is no longer locked
        assert building.exists()
        assert folder.store.names() == []
    assert answer(home, "drop", "library") == {"index": "library", "deleted": True}
    assert list(folder.indexes.iterdir()) == []
