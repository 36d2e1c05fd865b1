"""CSV and gzip-compressed JSON Lines: what becomes of rows, and what is refused."""

import gzip
import json

import pytest

from services.datasets.containers import gzip_jsonl
from services.datasets.record import Problem, Record, UnreadableFile
from tests.unit.datasets.conftest import Read


def test_cells_become_texts_and_empty_ones_null(read: Read) -> None:
    rows = read(b'\xef\xbb\xbfprompt,completion\r\n"1+1?\n",2\r\n\r\n3,\r\n')

    assert rows == [
        Record(1, {"prompt": "1+1?\n", "completion": "2"}),
        Record(2, {"prompt": "3", "completion": None}),
    ]


def test_a_line_with_other_cells_is_a_problem_of_its_row(read: Read) -> None:
    rows = read(b"a,b\n1,2\n1\n1,2,3\n")

    assert [type(row) for row in rows] == [Record, Problem, Problem]
    assert str(rows[2]) == "row 3: has 3 cells; the first line names 2 columns"


@pytest.mark.parametrize("content", [b'a,b\n1,"2\n', b"a,b\n1,\xff\n"])
def test_a_text_that_is_not_csv_is_named_by_its_line(read: Read, content: bytes) -> None:
    with pytest.raises(UnreadableFile, match="is not CSV"):
        read(content)


def test_rows_where_files_were_joined_are_problems(read: Read) -> None:
    rows = read(b"\xef\xbb\xbfa,b\n1,2\n\xef\xbb\xbfa,b\n3,4\na,b\n")

    assert [type(row) for row in rows] == [Record, Problem, Record, Problem]
    assert "row 2: begins with a byte order mark, as where files were joined" in str(rows[1])
    assert "row 4: repeats the names of the columns" in str(rows[3])


def test_compressed_rows_are_read(read: Read) -> None:
    content = b"".join(json.dumps({"n": n}).encode() + b"\n" for n in range(3))

    assert read(gzip.compress(content)) == [Record(n + 1, {"n": n}) for n in range(3)]


def test_a_compressed_file_cannot_expand_without_bound(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gzip_jsonl, "EXPANDED_BYTES", 1000)
    content = b'{"n": 1}\n' + b"\n" * 1_000_000

    with pytest.raises(UnreadableFile, match="expands more than 200 times"):
        read(gzip.compress(content))
