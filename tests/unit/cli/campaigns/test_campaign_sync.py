"""Logs of campaigns in a store: only what changed, and no token that cannot work."""

import base64
import contextlib
import hmac
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from azure.storage import blob
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from infra.testing.azurite import PROGRAM
from temper.cli.main import main
from temper.submission.submission import SubmissionError
from temper.sync import sas_token
from temper.sync.sas_token import RIGHTS_DOWN, RIGHTS_UP, check_token, make_token, read_token
from temper.sync.store import MANIFEST, LogStore
from temper.sync.transfer import LogFile, fetch, send
from tests.support.processes import free_port
from tests.support.waiting import wait_for
from tests.unit.cli.conftest import ScriptedServer

NOW = datetime(2026, 5, 1, tzinfo=UTC)
STEP = "log/2025-01-01_12-00-00-123456/Loop_1/coding/step.md"
SUMMARY = "log/2025-01-01_12-00-00-123456/summary.md"


def token(**fields: str) -> str:
    return urlencode({"se": "2026-05-08T00:00:00Z", "sp": "rwdl", "sig": "secret", **fields})


class Logs:
    """Files to send; counts which are read."""

    def __init__(self, **files: bytes) -> None:
        self.files = {SUMMARY: b"# Loops\n", STEP: b"# Loop 1\n", **files}

    def __iter__(self) -> Iterator[LogFile]:
        for name, content in self.files.items():
            yield LogFile(name, lambda content=content: content)  # type: ignore[misc]  # bound at its definition


class Breaking(LogStore):
    """A store that is cut off after some files."""

    left = 1

    def write(self, name: str, content: bytes) -> None:
        if name != MANIFEST:
            if not self.left:
                raise SubmissionError("cut off")
            self.left -= 1
        super().write(name, content)


def test_only_changed_files_are_transferred(tmp_path: Path) -> None:
    store, logs = LogStore(str(tmp_path / "store"), {}), Logs()

    first = send(store, iter(logs))
    logs.files[SUMMARY] = b"# LOOPS\n"  # of the same size
    second = send(store, iter(logs))

    assert (first.files, first.unchanged) == (2, 0)
    assert (second.files, second.unchanged) == (1, 1)
    target = tmp_path / "here"
    assert fetch(store, target).files == 2
    assert (target / SUMMARY).read_bytes() == b"# LOOPS\n"
    (target / STEP).write_bytes(b"# loop 1\n")
    (target / "log" / "own.txt").write_text("stays")
    again = fetch(store, target)
    assert (again.files, again.unchanged) == (1, 1)
    assert (target / STEP).read_bytes() == b"# Loop 1\n"
    assert (target / "log" / "own.txt").exists()


def test_an_interrupted_transfer_resumes(tmp_path: Path) -> None:
    logs = Logs()
    with pytest.raises(SubmissionError, match="cut off"):
        send(Breaking(str(tmp_path), {}), iter(logs))

    done = send(LogStore(str(tmp_path), {}), iter(logs))

    assert (done.files, done.unchanged) == (1, 1)


def test_a_file_missing_from_the_store_is_sent_again(tmp_path: Path) -> None:
    store, logs = LogStore(str(tmp_path), {}), Logs()
    send(store, iter(logs))
    (tmp_path / STEP).unlink()

    assert send(store, iter(logs)).files == 1


def test_an_invalid_manifest_is_reported(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("[]")

    with pytest.raises(SubmissionError, match="is not a JSON object"):
        LogStore(str(tmp_path), {}).digests()


@pytest.mark.parametrize(
    ("text", "rights", "message"),
    [
        (token(se="2026-04-30T23:59:59Z"), RIGHTS_UP, "expired at 2026-04-30T23:59:59Z"),
        (token(st="2026-05-02"), RIGHTS_UP, "not valid before 2026-05-02"),
        (token(sp="rl"), RIGHTS_UP, "lacks permission to write, create"),
        (token(sp="w"), RIGHTS_DOWN, "lacks permission to read, list"),
        ("se=2026-05-08T00:00:00Z&sp=rl", RIGHTS_DOWN, "has no sig"),
        (token(se="soon"), RIGHTS_DOWN, "se is not a time"),
    ],
)
def test_an_unusable_token_is_rejected(text: str, rights: str, message: str) -> None:
    with pytest.raises(SubmissionError, match=message) as refused:
        check_token(text, rights, NOW)

    assert "secret" not in str(refused.value)


def test_a_token_with_the_published_rights_is_accepted() -> None:
    check_token(token(), RIGHTS_UP, NOW)
    check_token(token(sp="rl"), RIGHTS_DOWN, NOW)


def test_an_expired_token_is_rejected_before_any_request(
    tmp_path: Path,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    path = tmp_path / ".az_sas_token"
    path.write_text("?" + token(se="2020-01-01T00:00:00Z") + "\n")

    code = main(["campaign", "sync", "up", "--store", "az://logs/team", "--token-file", str(path)])

    assert code == 1
    assert "expired at 2020-01-01T00:00:00Z" in capsys.readouterr().err
    assert server.received == []


def test_the_log_of_a_campaign_is_sent_through_the_gateway(
    tmp_path: Path,
    server: ScriptedServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    monkeypatch.setenv("TEMPER_CAMPAIGN_STORE", str(tmp_path / "store"))
    names = [STEP, SUMMARY, "loop-1/train.jsonl"]
    listed = [{"id": name, "bytes": 3, "created_at": 1} for name in names]

    def artifacts(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": listed, "has_more": False})

    server.on("/v1/jobs/campaign-1/artifacts", artifacts)
    for name in names:
        server.on(f"/v1/jobs/campaign-1/artifacts/{name}", Response(b"abc"))

    codes = [main(["campaign", "sync", "up", "campaign-1"]) for _ in range(2)]
    down = main(["campaign", "sync", "down", "--folder", str(tmp_path / "here")])

    assert (codes, down) == ([0, 0], 0)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("sent 2 files")
    assert printed[1].startswith("sent 0 files")
    assert printed[2].startswith("fetched 2 files")
    assert (tmp_path / "here" / STEP).read_bytes() == b"abc"
    assert not (tmp_path / "here" / "loop-1").exists()


@pytest.mark.parametrize("url", ["logs", "nosuch://bucket/logs"])
def test_an_invalid_store_is_rejected(url: str) -> None:
    with pytest.raises(SubmissionError, match=url):
        LogStore(url, {}).check()


# The development account that every Azurite has; its key is public.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextlib.contextmanager
def running_azurite(folder: Path) -> Iterator[str]:
    """A Blob emulator; yields its endpoint."""
    if not PROGRAM.exists():
        pytest.skip("Azurite is not installed: make dev fetches it where there is npm")
    port = free_port()
    arguments = ["--location", str(folder), "--blobPort", str(port), "--silent"]
    process = subprocess.Popen([PROGRAM, *arguments, "--skipApiVersionCheck"])
    try:
        wait_for(lambda: _listens(port), "azurite listens", 60)
        yield f"http://127.0.0.1:{port}/{ACCOUNT}"
    finally:
        process.terminate()
        process.wait(20)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def connection(endpoint: str, signature: str) -> dict[str, str]:
    return {"connection_string": f"BlobEndpoint={endpoint};SharedAccessSignature={signature}"}


def test_azure_blob_takes_logs_by_a_sas_token(tmp_path: Path) -> None:
    with running_azurite(tmp_path / "azurite") as endpoint:
        service = blob.BlobServiceClient(endpoint, credential=KEY)
        service.create_container("logs")

        def sas(permission: str, hours: float) -> str:
            end = datetime.now(UTC) + timedelta(hours=hours)
            return str(
                blob.generate_container_sas(
                    ACCOUNT, "logs", account_key=KEY, permission=permission, expiry=end
                )
            )

        good = LogStore("az://logs/team", connection(endpoint, sas("rwdl", 1)))
        good.check()
        logs = Logs()
        assert send(good, iter(logs)).files == 2
        assert send(good, iter(logs)).unchanged == 2
        assert fetch(good, tmp_path / "here").files == 2
        assert (tmp_path / "here" / STEP).read_bytes() == b"# Loop 1\n"
        # An expiry that the token itself hides: its signature is of another one.
        forged = sas("rwdl", 1).replace("sig=", "sig=A")
        with pytest.raises(SubmissionError, match="cannot be read"):
            LogStore("az://logs/team", connection(endpoint, forged)).check()


def test_a_token_is_made_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"k" * 64).decode())
    path = tmp_path / "secrets" / "token"
    arguments = ["--account", "acme", "--container", "logs", "-o", str(path)]

    assert main(["campaign", "sync", "token", *arguments, "--expires", "2d"]) == 0

    made = read_token(path)
    now = datetime.now(UTC)
    check_token(made, RIGHTS_UP, now)
    check_token(made, "d", now + timedelta(days=1, hours=23))
    with pytest.raises(SubmissionError, match="expired"):
        check_token(made, RIGHTS_DOWN, now + timedelta(days=2, hours=1))
    assert path.stat().st_mode & 0o777 == 0o600
    assert made not in capsys.readouterr().err


DELEGATED = base64.b64encode(b"delegated key").decode()
SIGNED = {
    "signed_oid": "11111111-2222-3333-4444-555555555555",
    "signed_tid": "66666666-7777-8888-9999-000000000000",
    "signed_start": "2026-05-01T00:00:00Z",
    "signed_expiry": "2026-05-08T00:00:00Z",
    "signed_service": "b",
    "signed_version": "2025-07-05",
    "value": DELEGATED,
}
BEFORE_SIGNED_KEY = ("sp", "st", "se", "/blob/acme/logs")
ACCOUNT_SIGNED = (*BEFORE_SIGNED_KEY, "si", "sip", "spr", "sv", "sr", "snapshot", "ses")
USER_SIGNED = (
    *BEFORE_SIGNED_KEY,
    *("skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", "skdutid", "sduoid"),
    *("sip", "spr", "sv", "sr", "snapshot", "ses", "srh", "srq"),
)
HEADERS_SIGNED = ("rscc", "rscd", "rsce", "rscl", "rsct")
"""The fields of the strings to sign, in the order that Microsoft publishes ("Create a service SAS",
"Create a user delegation SAS"); what a token lacks is an empty line."""


@pytest.mark.parametrize("by_user", [False, True])
def test_a_token_is_signed_as_published(by_user: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Service:
        def __init__(self, url: str, credential: object) -> None:
            assert url == "https://acme.blob.core.windows.net"
            assert credential == "signed in"

        def __enter__(self) -> "Service":
            return self

        def __exit__(self, *_: object) -> None: ...

        def get_user_delegation_key(self, start: datetime, end: datetime) -> Any:
            assert (start, end) == (NOW, NOW + timedelta(days=7))
            key = blob.UserDelegationKey()  # type: ignore[no-untyped-call]  # the library has no types here
            for name, value in SIGNED.items():
                setattr(key, name, value)
            return key

    monkeypatch.setattr(blob, "BlobServiceClient", Service)
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", lambda: "signed in")
    key = DELEGATED if by_user else base64.b64encode(b"account key").decode()
    monkeypatch.delenv(sas_token.ACCOUNT_KEY, raising=False)
    if not by_user:
        monkeypatch.setenv(sas_token.ACCOUNT_KEY, key)

    token = make_token("acme", "logs", NOW, NOW + timedelta(days=7))

    fields = {name: values[0] for name, values in parse_qs(token).items()}
    signed = (*(USER_SIGNED if by_user else ACCOUNT_SIGNED), *HEADERS_SIGNED)
    text = "\n".join(name if name.startswith("/") else fields.get(name, "") for name in signed)
    digest = hmac.digest(base64.b64decode(key), text.encode(), "sha256")
    assert fields["sig"] == base64.b64encode(digest).decode()
    assert (fields["sp"], fields["sr"], fields["spr"]) == ("rwdl", "c", "https")
    assert (fields["st"], fields["se"]) == (SIGNED["signed_start"], SIGNED["signed_expiry"])
    if by_user:
        assert (fields["skoid"], fields["sktid"]) == (SIGNED["signed_oid"], SIGNED["signed_tid"])
