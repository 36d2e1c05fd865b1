"""Parts of uploads on disk: order, checks, retries and cleanup."""

import hashlib
import time
from pathlib import Path

import pytest

from services.api.uploads import parts as module
from services.api.uploads.parts import UploadParts, UploadState
from services.contracts.data.files import CreateUpload, FilePurpose
from services.contracts.errors import Conflict, InvalidRequest, NotFound


def begin(parts: UploadParts, size: int, filename: str = "rows.jsonl") -> UploadState:
    return parts.create(
        CreateUpload(
            bytes=size,
            filename=filename,
            mime_type="text/jsonl",
            purpose=FilePurpose.FINE_TUNE,
        )
    )


def add(parts: UploadParts, state: UploadState, content: bytes) -> str:
    path = parts.receiving(state)
    path.write_bytes(content)
    return parts.add(state, path)


def test_parts_are_assembled_in_the_order_of_the_request(tmp_path: Path) -> None:
    parts = UploadParts(tmp_path / "parts")
    state = begin(parts, 8, "../../rows\n.jsonl")
    second, first = add(parts, state, b"two"), add(parts, state, b"one, ")
    add(parts, state, b"sent twice")

    whole = parts.assemble(state, [first, second], hashlib.md5(b"one, two").hexdigest().upper())

    assert whole.path.read_bytes() == b"one, two"
    assert (whole.bytes, whole.sha256) == (8, hashlib.sha256(b"one, two").hexdigest())
    assert (whole.filename, whole.purpose) == ("rows.jsonl", FilePurpose.FINE_TUNE)
    assert whole.path.name == state.file_id
    assert parts.read(state.id) == state


def test_a_mismatch_with_the_announced_file_is_rejected_by_field(tmp_path: Path) -> None:
    parts = UploadParts(tmp_path)
    state = begin(parts, 6)
    part = add(parts, state, b"abc")
    other = add(parts, begin(parts, 3), b"xyz")

    for part_ids, param in (
        ([part], "part_ids"),
        ([part, part], "part_ids"),
        ([part, other], "part_ids[1]"),
        ([f"../{state.id}/{part}"], "part_ids[0]"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            parts.assemble(state, part_ids, None)
        assert refused.value.param == param
    with pytest.raises(InvalidRequest) as refused:
        parts.assemble(state, [part, add(parts, state, b"def")], "0" * 32)
    assert refused.value.param == "md5"
    assert not [path for path in (tmp_path / state.id).iterdir() if path.is_dir()]


def test_the_total_size_of_parts_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PART_BYTES", 0)
    monkeypatch.setattr(module, "MAX_PARTS", 3)
    parts = UploadParts(tmp_path)
    state = begin(parts, 4)

    add(parts, state, b"1234")
    with pytest.raises(Conflict, match="larger than its file"):
        add(parts, state, b"12345")
    add(parts, state, b"12")
    add(parts, state, b"34")
    with pytest.raises(Conflict, match="3 parts"):
        add(parts, state, b"")


def test_a_cancelled_upload_keeps_nothing_but_its_state(tmp_path: Path) -> None:
    parts = UploadParts(tmp_path)
    state = begin(parts, 3)
    add(parts, state, b"abc")
    arriving = parts.receiving(state)
    arriving.write_bytes(b"later")

    parts.cancel(state)

    assert [path.name for path in (tmp_path / state.id).iterdir()] == ["upload.json"]
    with pytest.raises(Conflict) as refused:
        parts.read(state.id).check_pending()
    assert refused.value.code == "upload_cancelled"
    with pytest.raises(Conflict) as refused:
        parts.add(state, arriving)
    assert refused.value.code == "upload_changed"


def test_a_part_that_arrives_while_its_upload_ends_is_removed(tmp_path: Path) -> None:
    parts = UploadParts(tmp_path)
    cancelled, completed = begin(parts, 3), begin(parts, 3)
    late = [parts.receiving(state) for state in (cancelled, completed)]
    parts.cancel(cancelled)
    parts.complete(completed)

    for state, path in zip((cancelled, completed), late, strict=True):
        path.write_bytes(b"abc")
        with pytest.raises(Conflict):
            parts.add(state, path)
        assert [each.name for each in (tmp_path / state.id).iterdir()] == ["upload.json"]


def test_an_upload_expires_and_is_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = UploadParts(tmp_path)
    state = begin(parts, 3)

    old = state.model_copy(update={"created_at": time.time() - 3601})
    with pytest.raises(Conflict) as refused:
        old.check_pending()
    assert refused.value.code == "upload_expired"

    parts.remove_stale()
    assert parts.read(state.id) == state
    monkeypatch.setattr(module, "STALE_SECONDS", -60.0)
    parts.remove_stale()
    with pytest.raises(NotFound):
        parts.read(state.id)


@pytest.mark.parametrize("name", ["..", "upload_", "upload_" + "0" * 24, "upload_../../etc"])
def test_invalid_upload_ids_are_not_looked_up(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotFound):
        UploadParts(tmp_path).read(name)


def test_the_number_of_uploads_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_UPLOADS", 1)
    parts = UploadParts(tmp_path)
    begin(parts, 1)

    with pytest.raises(Conflict) as refused:
        begin(parts, 1)

    assert refused.value.code == "too_many_uploads"
    assert len(list(tmp_path.iterdir())) == 1
