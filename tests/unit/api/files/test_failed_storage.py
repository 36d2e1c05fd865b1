"""What a full disk, a failed commit or a crash leaves behind: nothing."""

import errno
import os
import time
from pathlib import Path

import pytest

from services.api.files.service import add_file, remove_orphans
from services.api.files.upload import Upload
from services.api.uploads.parts import STATE, UploadParts, UploadState
from services.contracts.data.files import CreateUpload, FilePurpose
from services.contracts.errors import StorageFull
from services.core.artifacts import Artifacts
from services.core.db.engine import Database

ASKED = CreateUpload(filename="a", purpose=FilePurpose.FINE_TUNE, bytes=10, mime_type="text/plain")
LONG_AGO = 8 * 86_400


def received(artifacts: Artifacts, name: str) -> Upload:
    path = artifacts.uploads() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 10)
    return Upload(path, "a.jsonl", FilePurpose.FINE_TUNE, 10, "0" * 64)


def test_a_file_whose_commit_fails_is_not_kept(database: Database, tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    upload = received(artifacts, "file-1")

    with pytest.raises(RuntimeError, match="full"), database.write() as session:
        add_file(session, artifacts, upload)
        raise RuntimeError("full")

    assert list(artifacts.file("").iterdir()) == []
    assert upload.path.exists()  # the request removes it, or tries again


def test_old_contents_without_a_row_are_removed_at_the_start(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path)
    with database.write() as session:
        add_file(session, artifacts, received(artifacts, "file-1"))
    artifacts.file("file-2").write_bytes(b"x")

    remove_orphans(database, artifacts)
    assert artifacts.file("file-2").exists()  # its transaction may go on

    at = time.time() + LONG_AGO
    monkeypatch.setattr(time, "time", lambda: at)
    remove_orphans(database, artifacts)
    assert [path.name for path in artifacts.file("").iterdir()] == ["file-1"]


def test_a_database_of_another_home_removes_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path)
    artifacts.file("file-1").parent.mkdir()
    artifacts.file("file-1").write_bytes(b"x")
    at = time.time() + LONG_AGO
    monkeypatch.setattr(time, "time", lambda: at)

    remove_orphans(database, artifacts)

    assert artifacts.file("file-1").exists()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which states can be written only while there are no parts."""
    write = Path.write_text

    def refuse(path: Path, text: str) -> int:
        path.touch()
        if any(path.parent.glob("part_*")) or path.parents[1].name == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse)


def with_a_part(parts: UploadParts) -> UploadState:
    state = parts.create(ASKED)
    path = parts.receiving(state)
    path.write_bytes(b"x" * 5)
    parts.add(state, path)
    return state


@pytest.mark.parametrize("end", [UploadParts.cancel, UploadParts.complete])
@pytest.mark.usefixtures("full_disk")
def test_an_upload_can_be_ended_on_a_full_disk(tmp_path: Path, end: object) -> None:
    parts = UploadParts(tmp_path / "parts")
    state = with_a_part(parts)

    ended = end(parts, state)  # type: ignore[operator]

    assert parts.read(state.id) == ended
    assert [path.name for path in (parts.root / state.id).iterdir()] == [STATE]


@pytest.mark.usefixtures("full_disk")
def test_an_upload_that_finds_no_room_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    parts = UploadParts(tmp_path / "full")

    with pytest.raises(StorageFull):
        parts.create(ASKED)

    assert list(parts.root.iterdir()) == []
