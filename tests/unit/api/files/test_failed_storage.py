"""What a full disk, a failed commit or a crash leaves behind: nothing."""

import errno
import os
import time
from pathlib import Path

import pytest
from sqlalchemy import delete

from services.api.files.removal import remove_content, remove_file
from services.api.files.service import add_file, remove_orphans
from services.api.files.upload import Upload
from services.api.uploads.parts import STATE, UploadParts, UploadState
from services.contracts.data.files import CreateUpload, FilePurpose
from services.contracts.errors import StorageFull
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import FileRow

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

    assert list(artifacts.file("").iterdir()) == list(artifacts.file_mark("").iterdir()) == []
    assert upload.path.exists()  # the request removes it, or tries again


class Killed(BaseException):
    """The gateway ends here."""


def kept(artifacts: Artifacts) -> set[str]:
    return {path.name for path in artifacts.file("").iterdir()}


def test_an_old_content_that_never_got_its_row_is_removed_at_the_start(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path)
    with database.write() as session:
        add_file(session, artifacts, received(artifacts, "file-1"))
    monkeypatch.setattr("services.api.files.service._move_back", lambda *_: None)
    with pytest.raises(Killed), database.write() as session:
        add_file(session, artifacts, received(artifacts, "file-2"))
        raise Killed

    remove_orphans(database, artifacts)
    assert kept(artifacts) == {"file-1", "file-2"}  # its transaction may go on

    at = time.time() + LONG_AGO
    monkeypatch.setattr(time, "time", lambda: at)
    remove_orphans(database, artifacts)
    assert kept(artifacts) == {"file-1"}
    assert not list(artifacts.file_mark("").iterdir())


def test_the_content_of_a_deleted_file_is_removed_though_its_gateway_ended(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path)
    names = ["file-1", "file-2", "file-3"]
    with database.write() as session:
        for name in names:
            add_file(session, artifacts, received(artifacts, name))
    for name in names[:2]:
        with database.write() as session:
            remove_file(session, artifacts, name)
    remove_content(artifacts, "file-1")  # the gateway ends before the second

    assert kept(artifacts) == {"file-2", "file-3"}
    at = time.time() + LONG_AGO
    monkeypatch.setattr(time, "time", lambda: at)
    remove_orphans(database, artifacts)
    assert kept(artifacts) == {"file-3"}
    assert not list(artifacts.file_mark("").iterdir())


def test_a_file_can_be_deleted_from_a_full_disk(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    artifacts = Artifacts(tmp_path)
    with database.write() as session:
        add_file(session, artifacts, received(artifacts, "file-1"))
    monkeypatch.setattr(Path, "touch", refuse)

    with database.write() as session:
        remove_file(session, artifacts, "file-1")
    remove_content(artifacts, "file-1")

    assert kept(artifacts) == set()


@pytest.mark.parametrize("known", [0, 1])
def test_a_database_from_a_backup_removes_no_file_of_the_one_that_it_replaced(
    known: int, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path)
    names = [f"file-{number}" for number in range(3)]
    with database.write() as session:
        for name in names:
            add_file(session, artifacts, received(artifacts, name))
    with database.write() as session:  # what the backup does not have
        session.execute(delete(FileRow).where(FileRow.id.in_(names[known:])))
    at = time.time() + LONG_AGO
    monkeypatch.setattr(time, "time", lambda: at)

    remove_orphans(database, artifacts)

    assert kept(artifacts) == set(names)


def test_a_file_whose_row_was_stored_although_its_gateway_ended_stays_for_good(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = Artifacts(tmp_path)
    with database.write() as session:
        add_file(session, artifacts, received(artifacts, "file-1"))
    artifacts.file_mark("file-1").touch()  # as after a kill behind the commit
    remove_orphans(database, artifacts)
    with database.write() as session:
        session.execute(delete(FileRow))
    at = time.time() + LONG_AGO
    monkeypatch.setattr(time, "time", lambda: at)

    remove_orphans(database, artifacts)

    assert kept(artifacts) == {"file-1"}


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
