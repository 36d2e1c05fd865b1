"""Edge cases of uploads, sent as raw bytes to a real gateway."""

import hashlib
import http.client
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contract.files.uploading import (
    BOUNDARY,
    FILE,
    FORM,
    MAX_UPLOAD,
    MIB,
    PURPOSE,
    Gateway,
    form,
    pieces,
    serving,
)
from tests.support.waiting import wait_for

MAX_GROWTH_KIB = 20 * 1024
EXPIRY = b'Content-Disposition: form-data; name="expires_after[seconds]"\r\n\r\n3600'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("files")
    with serving(folder / "home", folder / "gateway.log") as gateway:
        yield gateway


def test_a_large_upload_uses_constant_memory_and_records_its_checksum(gateway: Gateway) -> None:
    gateway.send(form(PURPOSE, FILE + b"{}"))  # modules that the first upload imports
    process = Path(f"/proc/{gateway.process.pid}")
    (process / "clear_refs").write_text("5")  # resets the peak
    before = peak_kib(process)

    answer = gateway.send(pieces(50 * MIB))

    assert answer.status_code == 200, answer.text
    content = b"".join(bytes([number]) * MIB for number in range(50))
    assert answer.json()["bytes"] == len(content)
    assert answer.json()["sha256"] == hashlib.sha256(content).hexdigest()
    assert (gateway.home / "files" / answer.json()["id"]).read_bytes() == content
    assert peak_kib(process) - before < MAX_GROWTH_KIB


def peak_kib(process: Path) -> int:
    lines = (process / "status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


@pytest.mark.parametrize(
    ("body", "headers", "param"),
    [
        (form(PURPOSE), FORM, "file"),
        (form(FILE + b"{}"), FORM, "purpose"),
        (form(PURPOSE.replace(b"fine-tune", b"mischief"), FILE + b"{}"), FORM, "purpose"),
        (form(PURPOSE + b"x" * 5000, FILE + b"{}"), FORM, None),
        (form(PURPOSE, PURPOSE, FILE + b"{}"), FORM, "purpose"),
        (form(PURPOSE, FILE + b"one", FILE + b"two"), FORM, "file"),
        (form(PURPOSE, FILE + b"cut")[: -len(BOUNDARY)], FORM, "file"),
        (form(PURPOSE, end=b"\r\n") + FILE[:40], FORM, "file"),
        (form(PURPOSE, EXPIRY, FILE + b"{}"), FORM, "expires_after"),
        (b"", FORM, "file"),
        (b"no form at all", FORM, None),
        (form(PURPOSE, FILE + b"{}"), {"Content-Type": "multipart/form-data"}, None),
        (b'{"file": "x"}', {"Content-Type": "application/json"}, None),
        (b"x", {}, None),
    ],
    ids=[
        "no file",
        "no purpose",
        "unknown purpose",
        "long purpose",
        "two purposes",
        "two files",
        "cut in the file",
        "cut in a header",
        "an expiry",
        "empty body",
        "no form",
        "no boundary",
        "another type",
        "no type",
    ],
)
def test_an_incomplete_form_is_rejected_and_leaves_no_files(
    gateway: Gateway, body: bytes, headers: dict[str, str], param: str | None
) -> None:
    stored = gateway.stored()

    answer = gateway.send(body, headers)

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert (gateway.stored(), gateway.partial()) == (stored, [])


def test_a_file_may_be_empty(gateway: Gateway) -> None:
    answer = gateway.send(form(PURPOSE, FILE))

    assert answer.json()["bytes"] == 0
    assert answer.json()["sha256"] == hashlib.sha256(b"").hexdigest()
    assert gateway.http.get(f"/v1/files/{answer.json()['id']}/content").content == b""


@pytest.mark.parametrize("content", [b"\r\n", b"--", b"\r\n--" + BOUNDARY[:-1], b"\r\n\r\n--x--"])
def test_content_that_resembles_a_boundary_is_preserved(gateway: Gateway, content: bytes) -> None:
    answer = gateway.send(form(PURPOSE, FILE + content))

    assert gateway.http.get(f"/v1/files/{answer.json()['id']}/content").content == content


def connection(gateway: Gateway, size: int) -> http.client.HTTPConnection:
    """A connection on which the headers of an upload of ``size`` bytes were sent."""
    url = gateway.http.base_url
    raw = http.client.HTTPConnection(url.host, url.port, timeout=30)
    raw.putrequest("POST", "/v1/files")
    raw.putheader("Content-Type", FORM["Content-Type"])
    raw.putheader("Content-Length", str(size))
    raw.endheaders()
    return raw


def test_a_client_disconnect_leaves_no_files(gateway: Gateway) -> None:
    stored = gateway.stored()
    raw = connection(gateway, 10 * MIB)
    raw.send(form(PURPOSE, end=b"\r\n") + FILE + b"x" * (3 * MIB))
    wait_for(lambda: any(path.stat().st_size for path in gateway.partial()), "the upload began")

    raw.close()

    wait_for(lambda: not gateway.partial(), "the partial file is removed")
    assert gateway.stored() == stored


def test_a_declared_size_over_the_limit_is_rejected_before_the_body(gateway: Gateway) -> None:
    raw = connection(gateway, MAX_UPLOAD + 2 * MIB)

    answer = raw.getresponse()  # not a byte of the body was sent

    assert answer.status == 413
    assert b"payload_too_large" in answer.read()
    raw.close()
    assert gateway.partial() == []


def test_an_undeclared_size_over_the_limit_is_rejected_while_streaming(gateway: Gateway) -> None:
    stored = gateway.stored()

    answer = gateway.send(pieces(MAX_UPLOAD + MIB))

    assert answer.status_code == 413, answer.text
    assert answer.json()["error"]["code"] == "payload_too_large"
    assert (gateway.stored(), gateway.partial()) == (stored, [])


def test_an_endless_form_field_is_rejected(gateway: Gateway) -> None:
    endless = form(PURPOSE, end=b"\r\n") + FILE[:-5] + b"x" * (3 * MIB)

    answer = gateway.send(endless)

    assert answer.status_code == 413, answer.text
    assert gateway.partial() == []


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"../../etc/passwd", "passwd"),
        (b"..\\\\..\\\\boot.ini", "boot.ini"),
        (b"/abs/a.jsonl", "a.jsonl"),
        (b"..", ".."),
        (b"", "file"),
        (b"a\0b.jsonl", "ab.jsonl"),
        ("größe, 数据, 🦆.jsonl".encode(), "größe, 数据, 🦆.jsonl"),
        ("right\u202eto-left.exe".encode(), "rightto-left.exe"),
        (b"n" * 400, "n" * 255),
        (b"semi;colon, comma%0d%0aX-Evil: 1.jsonl", "semi;colon, comma%0d%0aX-Evil: 1.jsonl"),
    ],
)
def test_a_filename_is_sanitized_and_never_used_as_a_path(
    gateway: Gateway, sent: bytes, kept: str
) -> None:
    part = b'Content-Disposition: form-data; name="file"; filename="' + sent + b'"\r\n\r\n{}'

    answer = gateway.send(form(PURPOSE, part))

    assert answer.status_code == 200, answer.text
    assert answer.json()["filename"] == kept
    download = gateway.http.get(f"/v1/files/{answer.json()['id']}/content")
    assert download.content == b"{}"
    assert download.headers["content-disposition"].startswith("attachment; filename")
    assert download.headers["x-content-type-options"] == "nosniff"
    assert "x-evil" not in download.headers
    assert gateway.stored().count(answer.json()["id"]) == 1


def test_a_filename_that_is_not_utf8_is_rejected(gateway: Gateway) -> None:
    part = b'Content-Disposition: form-data; name="file"; filename="\xff\xfe.jsonl"\r\n\r\n{}'

    assert gateway.send(form(PURPOSE, part)).status_code == 400
    assert gateway.partial() == []


@pytest.mark.parametrize("field", ["training_file", "training_files", "validation_files"])
def test_a_file_in_use_by_a_job_cannot_be_deleted(gateway: Gateway, field: str) -> None:
    folder = gateway.home / "models" / "base"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch()
    gateway.http.post("/v1/models", json={"id": "base", "folder": "base"})
    file_id = gateway.send(form(PURPOSE, FILE + b"{}")).json()["id"]
    other = gateway.send(form(PURPOSE, FILE + b"{}")).json()["id"]
    fields: dict[str, Any] = {
        "training_file": {"training_file": file_id},
        "training_files": {"training_files": [{"file": other}, {"file": file_id}]},
        "validation_files": {"training_file": other, "validation_files": {"math": file_id}},
    }
    job = gateway.http.post("/v1/fine_tuning/jobs", json={"model": "base", **fields[field]}).json()
    job_id = job["id"]

    refused = gateway.http.delete(f"/v1/files/{file_id}")
    gateway.http.post(f"/v1/jobs/{job_id}/cancel")
    allowed = gateway.http.delete(f"/v1/files/{file_id}")

    assert job["training_file"] == (file_id if field == "training_file" else other)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "file_in_use")
    assert allowed.status_code == 200
    assert file_id not in gateway.stored()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8m", "temper-test", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small file system is not permitted")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.drill
def test_a_full_disk_is_reported_and_leaves_no_partial_upload(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        serving(disk / "home", tmp_path / "gateway.log") as gateway,
    ):
        full = gateway.send(pieces(12 * MIB))
        fits = gateway.send(pieces(2 * MIB))

        assert (full.status_code, full.json()["error"]["code"]) == (507, "storage_full")
        assert full.headers["x-should-retry"] == "false"
        assert fits.status_code == 200, fits.text
        assert (gateway.stored(), gateway.partial()) == ([fits.json()["id"]], [])
