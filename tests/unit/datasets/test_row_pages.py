"""Rows from any place of a file on."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services.contracts.errors import InvalidRequest
from services.datasets.reader import open_records
from services.datasets.row_pages import Place, rows_behind

CONTENTS = {
    "lines": b'{"a": 1}\n{"a": 2}\n{"a": 3}\n',
    "no last line break": b'{"a": 1}\n{"a": 2}',
    "windows": b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n',
    "blank and broken lines": b'{"a": 1}\n\n   \n{"a"\n\xff\n{"a": 2}\n\n',
    "array": b'[{"a": 1},\n{"a": 2}, {"a": 3}]',
}


@pytest.fixture(params=[*CONTENTS, "parquet"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    target = tmp_path / "rows"
    if request.param == "parquet":
        pq.write_table(pa.table({"a": list(range(40))}), target, row_group_size=7)
    else:
        target.write_bytes(CONTENTS[request.param])
    return target


def test_every_row_is_a_starting_point_for_later_ones(path: Path) -> None:
    whole = list(open_records(path))
    found = list(rows_behind(path, Place()))

    assert [record for _, record in found] == whole
    for number, (place, record) in enumerate(found, start=1):
        assert place.row == record.row
        for reached in (place.id, str(place.row)):
            behind = [each for _, each in rows_behind(path, Place.parse(reached))]
            assert behind == whole[number:], reached


def test_rows_of_a_long_file_are_reached_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"n": n, "text": "x" * 500}) + "\n" for n in range(5000)))

    def first_behind(row: int) -> Any:
        return next((record.value for _, record in rows_behind(path, Place(row))), None)  # type: ignore[union-attr]  # all rows of the file are readable

    assert [first_behind(row)["n"] for row in (1, 2097, 2098, 4999)] == [1, 2097, 2098, 4999]
    assert first_behind(5000) is None
    assert first_behind(10**9) is None


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "1-2-3", "\u0661", "1" * 13, "1-3", "1-999"])
def test_a_position_outside_the_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CONTENTS["lines"])

    with pytest.raises(InvalidRequest) as refused:
        list(rows_behind(path, Place.parse(text)))
    assert refused.value.param == "after"
