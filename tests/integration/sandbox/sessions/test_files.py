"""Files are uploaded to and downloaded from a session, and nothing else is reachable."""

import base64
from collections.abc import Callable

import pytest

from tests.integration.sandbox.sessions.client import SessionClient
from tests.support.sandbox import Sandbox

PLAIN = "plain/deep/file.bin"
CONTENT = bytes(range(256)) * 40_000


def test_files_can_be_uploaded_listed_and_downloaded(
    open_session: Callable[..., SessionClient],
) -> None:
    given = base64.b64encode(b"given").decode()
    session = open_session(files={"in/given.txt": given, "left-out": None})
    assert session.value("open('in/given.txt').read()") == "'given'"
    uploaded = session.upload(PLAIN, CONTENT)
    assert uploaded.status_code == 200, uploaded.text
    assert (uploaded.json()["id"], uploaded.json()["bytes"]) == (PLAIN, len(CONTENT))
    assert session.value(f"len(open({PLAIN!r}, 'rb').read())") == str(len(CONTENT))
    session.execute("open('made.txt', 'w').write('made')")
    assert session.download("made.txt").content == b"made"
    assert session.download(PLAIN).content == CONTENT
    listed = session.http.get(f"{session.path}/files", params={"limit": 2}).json()
    assert [each["id"] for each in listed["data"]] == ["in/given.txt", "made.txt"]
    assert listed["has_more"]
    rest = session.http.get(f"{session.path}/files", params={"after": listed["last_id"]}).json()
    assert [(each["id"], each["bytes"]) for each in rest["data"]] == [(PLAIN, len(CONTENT))]


def test_files_are_served_while_a_cell_runs(session: SessionClient) -> None:
    code = (
        "import os, time\nopen('ready', 'w').write('yes')\nprint('begun', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\nopen('go').read()"
    )
    for name, data in session.stream(code):
        if name == "stdout":
            assert session.download("ready").content == b"yes"
            assert session.upload("go", b"went").status_code == 200
        if name == "display":
            assert data["data"] == {"text/plain": "'went'"}


def test_a_cell_never_sees_a_part_of_an_upload(session: SessionClient) -> None:
    code = (
        "import os\nprint('begun', flush=True)\nseen = set()\n"
        "while (32 << 20) not in seen:\n"
        "    if os.path.exists('go'): seen.add(os.stat('go').st_size)\n"
        "sorted(seen - {6 << 20, 32 << 20})"
    )
    for name, data in session.stream(code):
        if name == "stdout":
            assert session.upload("go", bytes(6 << 20)).status_code == 200
            assert session.upload("go", bytes(32 << 20)).status_code == 200
        if name == "display":
            assert data["data"] == {"text/plain": "[]"}


@pytest.mark.parametrize(
    "path", ["%2e%2e/etc/passwd", "a/%2e%2e/%2e%2e/b", "%2Fetc/passwd", "a%00b", "a//b", "a/"]
)
def test_paths_leading_outside_are_rejected(session: SessionClient, path: str) -> None:
    assert session.download(path).status_code == 422
    assert session.upload(path, b"x").status_code == 422


def test_special_files_are_refused_without_blocking(session: SessionClient) -> None:
    session.execute(
        "import os\nos.symlink('/etc/passwd', 'link')\nos.mkfifo('fifo')\nos.mkdir('folder')\n"
        "elsewhere = os.environ['TMPDIR']\nos.symlink(elsewhere, 'folder-link')\n"
        "open(f'{elsewhere}/secret', 'w').write('s')"
    )
    for path in ("link", "fifo", "folder", "folder-link/secret"):
        for answer in (session.download(path), session.upload(path, b"x")):
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_file"), path
    assert session.download("nothing").status_code == 404
    assert session.http.get(f"{session.path}/files").json()["data"] == []
    assert session.value("open(f'{elsewhere}/secret').read()") == "'s'"


def test_a_full_disk_is_reported(session: SessionClient, sandbox: Sandbox) -> None:
    if sandbox.http.get("/v1/isolation").json()["tier"] != "full":
        pytest.skip("the disk is the machine's own in this tier")
    session.execute(
        "full = open('full', 'wb')\n"
        "try:\n    while True: full.write(bytes(1 << 20))\nexcept OSError as error: pass"
    )
    answer = session.upload("more", bytes(8 << 20))
    assert answer.status_code in (507, 413), answer.text
    session.execute("import os\nos.truncate('full', 0)")
    assert session.upload("more", b"fits").status_code == 200


def test_uploads_may_be_larger_than_other_bodies(session: SessionClient, sandbox: Sandbox) -> None:
    assert session.upload("big", bytes(6 << 20)).status_code == 200
    body = {"code": "x" * (6 << 20)}
    assert sandbox.http.post(f"{session.path}/execute", json=body).status_code == 413
