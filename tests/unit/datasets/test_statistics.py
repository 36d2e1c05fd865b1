"""The description of a registered dataset's rows."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.datasets.statistics import describe_rows


def test_fields_lengths_and_first_rows_are_described(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    rows = [{"q": "x" * 40 * n, "tags": ["ab", "cd"] if n % 2 else None} for n in range(1, 11)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    found = describe_rows(path)

    assert found.rows == 10
    fields = {each.name: (each.types, each.filled) for each in found.fields}
    assert fields == {"q": (["string"], 10), "tags": (["array", "null"], 5)}
    assert (found.tokens.median, found.tokens.longest) == (60, 100)
    assert found.tokens.total == sum(10 * n + n % 2 for n in range(1, 11))
    assert found.samples[0] == rows[0]
    assert len(found.samples) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a": 1}\n[1]\n', "row 2 is not an object"),
        ('{"a": 1}\n{"a"\n', "row 2"),
        ('[{"a": 1}]', "JSON Lines"),
    ],
)
def test_a_bad_row_is_named(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text(content)

    with pytest.raises(InvalidRequest, match=message):
        describe_rows(path)
