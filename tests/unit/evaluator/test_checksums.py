"""Checksums of files that are computed once."""

import hashlib
import os
from pathlib import Path

from services.evaluator.evaluation.checksums import FILE, Checksums


class Reads:
    """Whether files were read: a file that is not there any more can only be remembered."""

    def __init__(self, folder: Path, most: int = 10) -> None:
        self.path, self._most, self.bytes = folder / FILE, most, 0

    def checksum(self, *files: Path) -> list[str]:
        checksums = Checksums(self.path, self._most)
        found = [checksums.of(file, self._count) for file in files]
        checksums.keep()
        return found

    def _count(self, number: int) -> None:
        self.bytes += number


def overwrite_secretly(file: Path, content: bytes) -> None:
    """Other bytes of the same number, and the time of the last change set back."""
    before = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_checksum_is_that_of_the_content_and_told_of_once_read_or_not(tmp_path: Path) -> None:
    file, reads = tmp_path / "weights", Reads(tmp_path)
    file.write_bytes(b"abc")

    assert reads.checksum(file) == reads.checksum(file) == [hashlib.sha256(b"abc").hexdigest()]
    assert reads.bytes == 6


def test_a_file_is_not_read_again_until_it_changes(tmp_path: Path) -> None:
    file, reads = tmp_path / "weights", Reads(tmp_path)
    file.write_bytes(b"abc")
    reads.checksum(file)
    remembered = hashlib.sha256(b"not what is there").hexdigest()
    text = reads.path.read_text().replace(hashlib.sha256(b"abc").hexdigest(), remembered)
    reads.path.write_text(text)

    assert reads.checksum(file) == [remembered]
    overwrite_secretly(file, b"abd")
    assert reads.checksum(file) == [hashlib.sha256(b"abd").hexdigest()]


def test_the_oldest_leave_and_a_damaged_file_is_an_empty_one(tmp_path: Path) -> None:
    reads = Reads(tmp_path, most=2)
    files = [tmp_path / name for name in "abc"]
    for file in files:
        file.write_text(file.name)
    reads.checksum(*files)

    kept = reads.path.read_text()
    assert [str(file) in kept for file in files] == [False, True, True]
    reads.path.write_text(kept[:20])
    assert reads.checksum(files[0]) == [hashlib.sha256(b"a").hexdigest()]
    assert [path.name for path in tmp_path.iterdir() if path not in files] == [FILE]
