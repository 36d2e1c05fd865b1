"""Scripts are started, polled, fetched from and killed."""

import secrets

from tests.support.programs.sandbox_scripts import ScriptClient
from tests.support.sandbox import Sandbox
from tests.support.waiting import wait_for

FOLDERS = {"datasets": "campaigns/mine"}
READ = "print(open('datasets/rows.jsonl').read(), flush=True)\n"


def test_a_script_reads_its_folder_and_its_file_is_fetched(scripts: ScriptClient) -> None:
    code = f"{READ}import sys\nopen('data.json', 'w').write(sys.argv[1])"
    script_id = scripts.start(
        code,
        file="process_data.py",
        arguments=["--debug"],
        folders=FOLDERS,
        fetch_files=["data.json"],
    )
    script = scripts.ended(script_id)

    assert script["result"]["return_code"] == 0, script
    assert '{"of": "mine"}' in script["stdout"]
    assert script["files"] == {"data.json": 7}
    assert scripts.file(script_id, "data.json").content == b"--debug"
    assert scripts.file(script_id, "other.json").status_code == 404
    scripts.delete(script_id)
    assert not scripts.is_known(script_id)


def test_a_script_is_followed_while_it_runs_and_is_started_once(scripts: ScriptClient) -> None:
    script_id = secrets.token_hex(16)
    code = "import time, uuid\nprint(uuid.uuid4(), 'begun', flush=True)\ntime.sleep(600)"
    scripts.start(code, script_id, seconds=3600)
    first = scripts.printed(script_id, "begun")

    scripts.start(code, script_id, seconds=3600)

    again = scripts.get(script_id)
    assert again["state"] == "running"
    assert (again["stdout"], again["result"]) == (first["stdout"], None)
    assert again["seconds"] >= first["seconds"]
    scripts.delete(script_id)


def test_a_failed_script_reports_the_tail_of_its_output(scripts: ScriptClient) -> None:
    script = scripts.run("print('x' * 100_000)\nraise ValueError('no rows')")

    assert script["state"] == "ended"
    assert script["result"]["return_code"] == 1
    assert script["stderr"].endswith("ValueError: no rows\n")
    assert 10_000 < len(script["stdout"]) < 20_000


def test_programs_do_not_wait_for_scripts(scripts: ScriptClient, sandbox: Sandbox) -> None:
    running = [scripts.start("while True: pass", seconds=3600) for _ in range(2)]
    wait_for(lambda: all(scripts.get(each)["seconds"] > 0 for each in running), "their start")

    assert "2 scripts are running" in scripts.refusal()
    assert sandbox.output("print('served')") == "served\n"

    for each in running:
        scripts.delete(each)
    assert scripts.output("print('again')") == "again\n"


def test_limits_above_those_of_the_operator_are_refused(scripts: ScriptClient) -> None:
    assert "TEMPER_SANDBOX_SCRIPT_HOURS" in scripts.refusal(seconds=3601)
    assert "TEMPER_SANDBOX_SCRIPT_OUTPUT_MB" in scripts.refusal(output_mb=65)
    assert "TEMPER_SANDBOX_MAX_MEMORY_MB" in scripts.refusal(memory_limit_mb=1 << 20)
