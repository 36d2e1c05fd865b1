"""Receiving forms: chunking does not matter, and failed uploads leave no files."""

import asyncio
import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from services.api.files import upload
from services.api.files.upload import Upload, receive_upload, remove_abandoned_uploads
from services.contracts.data.files import FilePurpose
from services.contracts.errors import InvalidRequest, PayloadTooLarge

TYPE = b"multipart/form-data; boundary=line"


def form(content: bytes, purpose: bytes = b"evals") -> bytes:
    return (
        b'--line\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n'
        b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n"
        b'--line\r\nContent-Disposition: form-data; name="purpose"\r\n\r\n' + purpose + b"\r\n"
        b"--line--\r\n"
    )


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]


def receive(folder: Path, pieces: Sequence[bytes], *, complete: bool = True) -> Upload:
    waiting: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    end: Message = {"type": "http.request", "body": b"", "more_body": False}
    waiting.append(end if complete else {"type": "http.disconnect"})

    async def next_message() -> Message:
        return waiting.pop(0)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", TYPE)]}
    return asyncio.run(receive_upload(Request(scope, next_message), folder / "upload", 1000))


@settings(deadline=None)
@given(content=st.binary(max_size=200), places=st.lists(st.integers(0, 1000), max_size=8))
def test_chunk_boundaries_do_not_change_an_upload(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, places: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    content = content.replace(b"\r\n--line", b"")

    got = receive(folder, cut(form(content), places))

    assert got.path.read_bytes() == content
    assert (got.bytes, got.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert (got.filename, got.purpose) == ("a.jsonl", FilePurpose.EVALS)


@settings(deadline=None)
@given(data=st.data())
def test_a_corrupted_form_is_rejected_or_received_without_an_internal_error(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("spoilt")
    body = bytearray(form(b"some rows\r\n" * 3))
    for _ in range(data.draw(st.integers(1, 6))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))

    try:
        got = receive(folder, [bytes(body)])
    except InvalidRequest:
        assert list(folder.iterdir()) == []
    else:
        assert got.path.stat().st_size == got.bytes


@pytest.mark.parametrize("kept", [0, 10, 80, 150, -12, -1])
def test_an_aborted_upload_leaves_no_files(tmp_path: Path, kept: int) -> None:
    with pytest.raises(InvalidRequest):
        receive(tmp_path, [form(b"rows" * 20)[:kept]], complete=False)

    assert list(tmp_path.iterdir()) == []


def test_the_size_limit_is_inclusive(tmp_path: Path) -> None:
    assert receive(tmp_path, [form(b"x" * 1000)]).bytes == 1000
    with pytest.raises(PayloadTooLarge):
        receive(tmp_path, [form(b"x" * 1001)])
    assert list(tmp_path.iterdir()) == []


def test_only_stale_partial_uploads_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "upload-1").touch()

    remove_abandoned_uploads(tmp_path)
    assert (tmp_path / "upload-1").exists()

    monkeypatch.setattr(upload, "ABANDONED_SECONDS", -60.0)
    remove_abandoned_uploads(tmp_path)
    assert not (tmp_path / "upload-1").exists()


def test_cleanup_tolerates_a_missing_upload_folder(tmp_path: Path) -> None:
    remove_abandoned_uploads(tmp_path / "absent")
