"""The container is detected from the content."""

from pathlib import Path

import pytest

from services.datasets.containers.container import Container, detect_container
from services.datasets.record import UnreadableFile


@pytest.mark.parametrize(
    ("content", "container"),
    [
        (b'\xef\xbb\xbf\r\n {"a": 1}', Container.JSONL),
        (b'{"a":\n{"b": 1}', Container.JSONL),
        (b" \n[1]", Container.JSON),
        (b"PAR1", Container.PARQUET),
        (b"\x1f\x8b\x08\x00", Container.GZIP),
        (b"id,text\n1,hello\n", Container.CSV),
        (b"\xef\xbb\xbftext\nhello\n", Container.CSV),
    ],
)
def test_the_container_is_detected_from_content_not_file_name(
    tmp_path: Path, content: bytes, container: Container
) -> None:
    path = tmp_path / "misleading.csv"
    path.write_bytes(content)
    assert detect_container(path) is container


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"Dear all,\nhello\n", "neither JSONL, a JSON array, Parquet nor CSV: it begins with 'De"),
        (b"PK\x03\x04", "ZIP archive or a spreadsheet"),
        (b"\xff\xfe{\x00", "UTF-16; save it as UTF-8"),
        (b'{\n  "messages": []\n}\n', "one JSON object spread over lines"),
        (b'{"a": 1,\n "b": 2}\n', "one JSON object spread over lines"),
    ],
)
def test_an_unreadable_file_is_explained(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "upload"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match=message.replace("[", r"\[")):
        detect_container(path)


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="cannot be read: No such file"):
        detect_container(tmp_path / "gone")
