"""Hostile scripts, and clients without access to scripts."""

from pathlib import Path

import pytest

from tests.integration.sandbox.hostile.test_processes import processes_with
from tests.support.programs.sandbox_scripts import KEY, ScriptClient
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

FOLDERS = {"datasets": "campaigns/mine"}
LOOK = """
import os
for path in {paths!r}:
    try: print(path, len(os.listdir(path) if os.path.isdir(path) else open(path).read()))
    except OSError as error: print(path, type(error).__name__)
"""


@pytest.mark.parametrize("header", [{}, {"Temper-Script-Key": "wrong"}, {"Authorization": KEY}])
def test_clients_without_the_key_start_nothing(sandbox: Sandbox, header: dict[str, str]) -> None:
    body = {"code": "print(1)", "seconds": 5}
    asked = [
        sandbox.http.put(f"/v1/scripts/{'0' * 32}", json=body, headers=header),
        sandbox.http.get("/v1/scripts", headers=header),
        sandbox.http.delete(f"/v1/scripts/{'0' * 32}", headers=header),
    ]
    assert [answer.status_code for answer in asked] == [403, 403, 403]


@pytest.mark.parametrize(
    "folder",
    [
        *("/etc", "etc", "", ".", "..", "campaigns/..", "campaigns/../others", "campaigns//mine"),
        *("campaigns/mine/../others", "campaigns/linked", "campaigns/mine/link", "campaigns/file"),
        *("campaigns/missing", "campaigns/mine\0", "others"),
    ],
)
def test_only_listed_folders_can_be_named(scripts: ScriptClient, folder: str) -> None:
    assert "folders.x" in scripts.refusal(folders={"x": folder})


@pytest.mark.parametrize("name", ["a/b", "..", "", "/x", "a\n"])
def test_a_folder_has_a_plain_name(scripts: ScriptClient, name: str) -> None:
    assert "folders" in scripts.refusal(folders={name: "campaigns/mine"})


def test_a_folder_hides_no_file(scripts: ScriptClient) -> None:
    assert "datasets" in scripts.refusal(folders=FOLDERS, files={"datasets/x": "eA=="})


def test_only_its_own_folders_can_be_read(
    scripts: ScriptClient, sandbox: Sandbox, datasets: Path
) -> None:
    """Neither another data set, nor what links in its own lead to, nor the service's files."""
    hidden = [
        *(f"{datasets}/others/rows.jsonl", f"{datasets}/file", "datasets/../others/rows.jsonl"),
        *("datasets/link/shadow", "datasets/link/machine-id", "/root/.bashrc", __file__),
    ]
    printed = scripts.output(LOOK.format(paths=hidden), folders=FOLDERS)
    assert all(line.endswith("Error") for line in printed.splitlines()), printed

    mine = [f"{datasets}/mine/rows.jsonl"]
    assert "Error" in sandbox.output(LOOK.format(paths=mine))


def test_its_folders_cannot_be_written(scripts: ScriptClient, datasets: Path) -> None:
    code = f"""
import os
tries = {{
    "overwrite": lambda top: open(f"{{top}}/rows.jsonl", "w"),
    "append": lambda top: open(f"{{top}}/rows.jsonl", "a"),
    "create": lambda top: open(f"{{top}}/new", "x"),
    "remove": lambda top: os.remove(f"{{top}}/rows.jsonl"),
    "rename": lambda top: os.rename(f"{{top}}/rows.jsonl", f"{{top}}/old"),
    "link": lambda top: os.link(f"{{top}}/rows.jsonl", "mine"),
    "mode": lambda top: os.chmod(f"{{top}}/rows.jsonl", 0o666),
    "times": lambda top: os.utime(f"{{top}}/rows.jsonl"),
    "folder": lambda top: os.mkdir(f"{{top}}/new"),
    "truncate": lambda top: os.truncate(f"{{top}}/rows.jsonl", 0),
}}
for name, attempt in tries.items():
    for top in ("datasets", {str(datasets / "mine")!r}):
        try: attempt(top)
        except OSError: continue
        print(name, top)
"""
    before = {path: path.stat().st_mode for path in datasets.rglob("*")}

    assert scripts.output(code, folders=FOLDERS) == ""

    assert {path: path.stat().st_mode for path in datasets.rglob("*")} == before
    assert (datasets / "mine" / "rows.jsonl").read_text() == '{"of": "mine"}\n'


def test_its_output_stays_within_the_quota(scripts: ScriptClient, is_full: bool) -> None:
    """Exactly, or in the container tier as soon as it is noticed."""
    code = """
import time
try:
    for number in range(1000):
        with open(f"{number}", "wb") as file: file.write(bytes(1 << 20))
        print(number, flush=True)
        time.sleep(0.01)
except OSError as error: print(error.strerror)
"""
    script = scripts.run(code, output_mb=16)

    reached = max(int(line) for line in script["stdout"].split() if line.isdigit())
    if is_full:
        assert "No space left on device" in script["stdout"]
        assert reached < 16
    else:
        assert script["result"]["return_code"] == -9
        assert reached < 999


def test_files_in_other_places_count_too(scripts: ScriptClient) -> None:
    code = """
import tempfile
kept = [tempfile.TemporaryFile() for _ in range(4)]
try:
    for file in kept:
        for _ in range(8): file.write(bytes(1 << 20)); file.flush()
    import time; time.sleep(60)
    print("all")
except OSError as error: print(error.strerror)
"""
    script = scripts.run(code, output_mb=16)

    assert "all" not in script["stdout"]


def test_a_fork_bomb_ends_at_the_time_limit(scripts: ScriptClient) -> None:
    code = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"

    script = scripts.run(code, seconds=3)

    assert script["result"]["status"] == "TimeLimitExceeded"


def test_memory_is_bounded(scripts: ScriptClient) -> None:
    script = scripts.run("x = b'x' * (1 << 30)", memory_limit_mb=128)

    assert script["result"]["out_of_memory"] or script["result"]["return_code"] == 1


def test_an_endless_loop_and_its_children_are_killed_on_demand(scripts: ScriptClient) -> None:
    mark = "script-to-be-cancelled"
    code = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "while True: pass", {mark!r}], start_new_session=True)
print("begun", flush=True)
while True: pass
"""
    script_id = scripts.start(code, seconds=3600)
    scripts.printed(script_id, "begun")
    assert wait_for(lambda: processes_with(mark), "the child")

    scripts.delete(script_id)

    assert processes_with(mark) == []


def test_it_has_no_network_and_no_secrets_of_the_service(scripts: ScriptClient) -> None:
    code = """
import os, socket
print(dict(os.environ))
for place in (("127.0.0.1", 3128), ("127.0.0.1", 8081), ("192.0.2.1", 80)):
    try: socket.create_connection(place, 2); print("reached", place)
    except OSError: pass
"""
    printed = scripts.output(code, environment={"OPENAI_API_KEY": "placeholder"})

    assert "'OPENAI_API_KEY': 'placeholder'" in printed
    assert "hunter2" not in printed
    assert "TEMPER" not in printed
    assert "reached" not in printed
    assert "has no network" in scripts.refusal(network=True)


def test_scripts_are_isolated_from_each_other(scripts: ScriptClient) -> None:
    """Not by files in shared places, nor by signals."""
    waiting = scripts.start(
        "import os, tempfile, time\n"
        "tempfile.NamedTemporaryFile(prefix='left-', delete=False)\n"
        "print('begun', os.getpid(), flush=True)\ntime.sleep(600)",
        seconds=3600,
    )
    scripts.printed(waiting, "begun")
    code = """
import os, signal, tempfile
print([name for name in os.listdir(tempfile.gettempdir()) if name.startswith("left")])
for pid in range(2, 400_000):
    if pid != os.getpid():
        try: os.kill(pid, signal.SIGKILL); print("killed", pid)
        except OSError: pass
"""
    assert scripts.output(code) == "[]\n"
    assert scripts.get(waiting)["state"] == "running"
    scripts.delete(waiting)
