"""Requests and programs that try to reach other runs' files."""

import base64
import os

import pytest

from tests.support.sandbox import Sandbox

OUTSIDE = ["../x", "/etc/passwd", "a/../../x", "..", "a//b", "", ".", "a/\0b", "./../x"]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("field", ["files", "fetch_files"])
def test_a_path_leading_outside_is_rejected(sandbox: Sandbox, field: str, path: str) -> None:
    value = {path: base64.b64encode(b"x").decode()} if field == "files" else [path]
    body = {"code": "print(1)", "language": "python", field: value}
    answer = sandbox.http.post("/run_code", json=body)
    assert answer.status_code == 422
    assert field in answer.text


def test_invalid_base64_is_rejected(sandbox: Sandbox) -> None:
    body = {"code": "", "language": "python", "files": {"data.bin": "not base64!"}}
    answer = sandbox.http.post("/run_code", json=body)
    assert answer.status_code == 422
    assert "data.bin" in answer.text


MADE = {
    "symbolic link": "os.symlink('/etc/passwd', 'x')",
    "link to a folder": "os.symlink('/etc', 'x')",
    "link within": "open('y', 'w').close(); os.symlink('y', 'x')",
    "named pipe": "os.mkfifo('x')",
    "folder": "os.mkdir('x')",
    "socket": "import socket; s = socket.socket(socket.AF_UNIX); s.bind('x')",
}


@pytest.mark.parametrize("kind", MADE)
def test_only_regular_files_are_fetched(sandbox: Sandbox, kind: str) -> None:
    answer = sandbox.run(f"import os\n{MADE[kind]}", fetch_files=["x", "x/passwd"])
    assert answer["files"] == {}


def test_hard_links_to_outside_files_cannot_be_created(sandbox: Sandbox) -> None:
    code = """
import os
made = []
for path in ('/etc/passwd', '/etc/shadow', '/bin/sh', '/proc/self/environ'):
    try: os.link(path, f'x{len(made)}')
    except OSError: continue
    made.append(path)
print(made)
"""
    assert sandbox.output(code, fetch_files=["x0"]) == "[]\n"


def test_a_folder_swapped_for_a_link_is_not_followed(sandbox: Sandbox) -> None:
    code = """
import os, shutil
shutil.rmtree('data')
os.symlink('/etc', 'data')
"""
    files = {"data/passwd": base64.b64encode(b"mine").decode()}
    assert sandbox.run(code, files=files, fetch_files=["data/passwd"])["files"] == {}


def test_a_large_sparse_file_is_left_out_and_named(sandbox: Sandbox) -> None:
    code = "open('sparse', 'wb').truncate(60 << 20)\nopen('more', 'wb').truncate(30 << 20)"
    answer = sandbox.run(code, fetch_files=["sparse", "more"])
    assert set(answer["files"]) == {"sparse"}
    assert "more" in answer["message"]


def test_host_files_are_hidden(sandbox: Sandbox, tmp_path: object) -> None:
    here = os.fspath(__file__)
    code = f"""
seen = []
paths = '/etc/shadow /root/.bashrc /proc/1/root/etc/shadow'.split()
for path in ({here!r}, {str(tmp_path)!r}, *paths):
    try:
        open(path).close()
    except IsADirectoryError: seen.append(path)
    except OSError: continue
    else: seen.append(path)
print(seen)
"""
    assert sandbox.output(code) == "[]\n"
