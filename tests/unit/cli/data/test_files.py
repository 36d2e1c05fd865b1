from pathlib import Path

import pytest
from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from services.contracts.data.file_rows import ShowExamples
from services.contracts.data.files import FilePurpose
from services.contracts.training.fine_tuning import Method
from temper.client import ApiError, Temper, UnexpectedAnswer
from temper.client.files import sha256_of
from tests.unit.cli.conftest import ScriptedServer

CONTENT = b"0123456789" * 50_000


def stored(**changes: object) -> dict[str, object]:
    return {
        "id": "file-1",
        "bytes": len(CONTENT),
        "created_at": 1,
        "filename": "data.jsonl",
        "purpose": "fine-tune",
        "sha256": "0" * 64,
        **changes,
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.jsonl"
    path.write_bytes(CONTENT)
    return path


def test_an_upload_reports_its_progress(client: Temper, server: ScriptedServer, data: Path) -> None:
    server.on("/v1/files", JSONResponse(stored()))
    seen: list[tuple[int, int]] = []

    client.files.upload(data, FilePurpose.FINE_TUNE, lambda done, total: seen.append((done, total)))

    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(seen) > 2
    assert b'filename="data.jsonl"' in server.received[0].body


def test_a_retried_upload_restarts_from_the_beginning(
    client: Temper, server: ScriptedServer, data: Path
) -> None:
    away = Response(status_code=503, headers={"Retry-After": "0"})
    server.on("/v1/files", away, JSONResponse(stored()))

    client.files.upload(data, FilePurpose.FINE_TUNE)

    assert all(CONTENT in request.body for request in server.received)
    assert len({request.headers["idempotency-key"] for request in server.received}) == 1


def test_a_truncated_upload_is_detected(client: Temper, server: ScriptedServer, data: Path) -> None:
    server.on("/v1/files", JSONResponse(stored(bytes=3)))

    with pytest.raises(UnexpectedAnswer, match="3 were stored"):
        client.files.upload(data, FilePurpose.FINE_TUNE)


def test_an_uploaded_file_is_found_by_its_checksum(
    client: Temper, server: ScriptedServer, data: Path
) -> None:
    files = [stored(id="file-other"), stored(id="file-same", sha256=sha256_of(data))]
    server.on("/v1/files", JSONResponse({"data": files}))

    found = client.files.same_content(data, FilePurpose.FINE_TUNE)

    assert found is not None
    assert found.id == "file-same"


def test_a_file_with_other_content_is_not_reused(
    client: Temper, server: ScriptedServer, data: Path
) -> None:
    server.on("/v1/files", JSONResponse({"data": [stored()]}))

    assert client.files.same_content(data, FilePurpose.FINE_TUNE) is None


def test_a_download_has_the_whole_file(
    client: Temper, server: ScriptedServer, tmp_path: Path
) -> None:
    server.on("/v1/files/file-1/content", Response(CONTENT))
    target = tmp_path / "got"

    client.files.download("file-1", target)

    assert target.read_bytes() == CONTENT


def test_a_broken_download_leaves_no_file(
    client: Temper, server: ScriptedServer, tmp_path: Path
) -> None:
    def half(_: Request) -> Response:
        return StreamingResponse(iter([CONTENT]), headers={"content-length": "999999"})

    server.on("/v1/files/file-1/content", half)

    with pytest.raises(Exception, match="gateway"):
        client.files.download("file-1", tmp_path / "got")

    assert list(tmp_path.iterdir()) == []


def test_a_rejected_download_leaves_no_file(
    client: Temper, server: ScriptedServer, tmp_path: Path
) -> None:
    with pytest.raises(ApiError):
        client.files.download("file-1", tmp_path / "got")

    assert list(tmp_path.iterdir()) == []


def test_rows_are_requested_as_training_reads_them(client: Temper, server: ScriptedServer) -> None:
    row = {"id": "2", "row": 2, "examples": []}
    page = {"data": [row], "has_more": False, "first_id": "2", "last_id": "2"}
    server.on("/v1/files/file-1/examples", JSONResponse(page))
    asked = ShowExamples(model="qwen", method=Method(), limit=3)

    assert [each.row for each in client.files.examples("file-1", asked).data] == [2]
    assert ShowExamples.model_validate_json(server.received[0].body) == asked
