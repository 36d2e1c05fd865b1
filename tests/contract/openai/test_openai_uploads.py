"""Multipart uploads through the unmodified ``openai`` package."""

import hashlib
from pathlib import Path

import openai
import pytest

CONTENT = b'{"prompt": "a", "completion": "b"}\n' * 1000


def begin(client: openai.OpenAI, size: int) -> str:
    upload = client.uploads.create(
        bytes=size, filename="rows.jsonl", mime_type="text/jsonl", purpose="fine-tune"
    )
    assert upload.status == "pending"
    assert upload.expires_at == upload.created_at + 3600
    return upload.id


def test_a_file_on_disk_arrives_in_parts(client: openai.OpenAI, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(CONTENT)

    upload = client.uploads.upload_file_chunked(
        file=path,
        mime_type="text/jsonl",
        purpose="fine-tune",
        part_size=10_000,
        md5=hashlib.md5(CONTENT).hexdigest(),
    )

    assert upload.status == "completed"
    assert upload.file is not None
    assert (upload.file.filename, upload.file.bytes) == ("rows.jsonl", len(CONTENT))
    assert client.files.content(upload.file.id).read() == CONTENT
    assert client.files.retrieve(upload.file.id).to_dict() == upload.file.to_dict()


def test_completing_again_returns_the_same_file(client: openai.OpenAI) -> None:
    upload = begin(client, 6)
    later = client.uploads.parts.create(upload, data=b"two")
    first = client.uploads.parts.create(upload, data=b"one")
    assert (first.object, first.upload_id) == ("upload.part", upload)

    once = client.uploads.complete(upload, part_ids=[first.id, later.id])
    again = client.uploads.complete(upload, part_ids=[first.id, later.id])

    assert once.file is not None
    assert again == once
    assert client.files.content(once.file.id).read() == b"onetwo"
    with pytest.raises(openai.ConflictError):
        client.uploads.parts.create(upload, data=b"three")
    client.files.delete(once.file.id)
    with pytest.raises(openai.ConflictError):
        client.uploads.cancel(upload)
    with pytest.raises(openai.ConflictError):
        client.uploads.complete(upload, part_ids=[first.id, later.id])


def test_the_file_of_an_upload_may_expire(client: openai.OpenAI) -> None:
    upload = client.uploads.create(
        bytes=3,
        filename="rows.jsonl",
        mime_type="text/jsonl",
        purpose="fine-tune",
        expires_after={"anchor": "created_at", "seconds": 3600},
    )
    part = client.uploads.parts.create(upload.id, data=b"one")

    file = client.uploads.complete(upload.id, part_ids=[part.id]).file

    assert file is not None
    assert file.expires_at == pytest.approx(file.created_at + 3600, abs=1)


def test_invalid_requests_are_rejected_by_field(client: openai.OpenAI) -> None:
    upload = begin(client, 6)
    part = client.uploads.parts.create(upload, data=b"one").id

    with pytest.raises(openai.BadRequestError) as refused:
        client.uploads.complete(upload, part_ids=[part])
    assert refused.value.param == "part_ids"
    with pytest.raises(openai.BadRequestError) as refused:
        client.uploads.complete(upload, part_ids=[part, "part_none"])
    assert refused.value.param == "part_ids[1]"
    with pytest.raises(openai.BadRequestError) as refused:
        client.uploads.create(bytes=1, filename="a", mime_type="image/png", purpose="vision")
    assert refused.value.param == "purpose"


def test_a_cancelled_upload_rejects_further_parts(client: openai.OpenAI) -> None:
    upload = begin(client, 6)
    client.uploads.parts.create(upload, data=b"one")

    assert client.uploads.cancel(upload).status == "cancelled"
    assert client.uploads.cancel(upload).status == "cancelled"
    with pytest.raises(openai.ConflictError):
        client.uploads.parts.create(upload, data=b"two")
    with pytest.raises(openai.NotFoundError):
        client.uploads.cancel("upload_none")
