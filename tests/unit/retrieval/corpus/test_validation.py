"""The child that validates the corpus of an indexing job."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.core.artifacts import SourceFile
from services.core.process.reporter import REPORTS, RESULT
from services.datasets.validate import SPEC
from services.datasets.validate import validate as validate_files
from services.retrieval.corpus.spec import CorpusFileSpec
from services.retrieval.corpus.validation import check_corpus


def validate(folder: Path, content: str, language: str | None = "english") -> dict[str, Any]:
    """Validate a corpus stored under a server-chosen name; return the result."""
    stored = folder / "file-1"
    stored.write_text(content, encoding="utf-8")
    spec = CorpusFileSpec(file=SourceFile(path=stored, filename="wiki.jsonl"), language=language)
    (folder / SPEC).write_text(spec.model_dump_json())
    validate_files(folder, CorpusFileSpec, check_corpus)
    return dict(json.loads((folder / RESULT).read_bytes()))


def messages(folder: Path) -> list[tuple[str, str]]:
    reports = map(json.loads, (folder / REPORTS).read_text().splitlines())
    return [(each["level"], each["message"]) for each in reports if each["type"] == "message"]


def test_a_valid_corpus_reports_its_size(tmp_path: Path) -> None:
    result = validate(tmp_path, '{"text": "x"}\n{"text": "y"}\n')

    assert result == {"status": "succeeded", "file": {"passages": 2}}
    assert messages(tmp_path) == [("info", "wiki.jsonl: 2 passages")]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"file-1", SPEC, REPORTS, RESULT}


def test_every_problem_is_a_message_and_the_first_one_the_error(tmp_path: Path) -> None:
    result = validate(tmp_path, '{"id": "a"}\n{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}\n')

    first = "wiki.jsonl: row 1: contents is missing (or text, in its place)"
    assert result["error"] == {
        "code": "invalid_corpus",
        "message": f"{first} (and 1 more error)",
        "param": "file",
        "retryable": False,
        "rows": [
            {"row": 1, "message": "contents is missing (or text, in its place)"},
            {"row": 3, "message": "id 'a' is also that of row 2"},
        ],
    }
    second = "wiki.jsonl: row 3: id 'a' is also that of row 2"
    assert messages(tmp_path) == [("error", first), ("error", second)]


@pytest.mark.parametrize(
    ("content", "language", "code", "param"),
    [
        ("", "english", "unreadable_file", "file"),
        ("plain text", "english", "unreadable_file", "file"),
        ('{"text": "x"}', "klingon", "invalid_request", "language"),
    ],
)
def test_errors_name_the_request_field(
    tmp_path: Path, content: str, language: str, code: str, param: str
) -> None:
    error = validate(tmp_path, content, language)["error"]

    assert (error["code"], error["param"]) == (code, param)
