"""Scripts under other settings: unattended ones, a restarted service, one destination."""

from pathlib import Path

import pytest

from services.contracts.errors import ConfigurationError
from services.sandbox.isolation.cgroups import find_cgroups
from services.sandbox.isolation.tier import Tier
from services.sandbox.isolation.tiers import choose_tier
from tests.integration.sandbox.test_network import HOST, greet
from tests.support.programs.sandbox_scripts import SETTINGS, ScriptClient
from tests.support.sandbox import running_sandbox
from tests.support.tcp import server
from tests.support.waiting import wait_for

ASK = """
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try: print(urllib.request.urlopen(url, timeout=20).read().decode())
    except urllib.error.HTTPError as error: print(error.code, error.read().decode().strip())
    except OSError as error: print(type(error).__name__)
"""
DIRECT = """
import socket, sys
host, port = sys.argv[1].split(":")
try: socket.create_connection((host, int(port)), 5); print("reached")
except OSError: print("not reached")
"""


@pytest.fixture
def full_tier() -> None:
    """Skip where programs cannot have a network of their own."""
    cgroups = find_cgroups("temper-test")
    try:
        choose_tier(Tier.FULL, None, cgroups)
    except ConfigurationError as error:
        pytest.skip(error.message)
    finally:
        cgroups.close()


@pytest.mark.parametrize("host", ["127.0.0.1", HOST])
@pytest.mark.usefixtures("full_tier")
def test_a_script_reaches_the_one_destination_and_no_program_does(
    tmp_path: Path, host: str
) -> None:
    """Also where that is on the loopback interface of the host, which clients do not proxy."""
    with server(greet, host) as listed, server(greet, host) as unlisted:
        settings = {**SETTINGS, "TEMPER_SANDBOX_SCRIPT_NETWORK": listed.place}
        with running_sandbox(tmp_path, **settings) as sandbox:
            scripts = ScriptClient(sandbox)
            urls = [f"http://{each.place}/" for each in (listed, unlisted)]
            hello, refused = scripts.output(ASK, arguments=urls, network=True).splitlines()

            assert hello == "hello"
            assert refused.startswith("403")
            assert "TEMPER_SANDBOX_SCRIPT_NETWORK" in refused
            direct = scripts.output(DIRECT, arguments=[listed.place], network=True)
            assert direct == "not reached\n"
            without = scripts.output(ASK, arguments=urls).splitlines()
            assert without == ["URLError", "URLError"]
            program = f"import sys\nsys.argv += {urls}\n{ASK}"
            assert sandbox.output(program) == "URLError\nURLError\n"
            asked = scripts.http.get("/v1/scripts", headers=scripts.headers).json()
            assert asked["network"] == listed.place


def test_an_unattended_script_is_killed(tmp_path: Path) -> None:
    settings = {**SETTINGS, "TEMPER_SANDBOX_SCRIPT_UNATTENDED_SECONDS": "1"}
    with running_sandbox(tmp_path, **settings) as sandbox:
        scripts = ScriptClient(sandbox)
        script_id = scripts.start("while True: pass", seconds=3600)
        log = tmp_path / "sandbox.log"
        wait_for(lambda: "is no longer polled" in log.read_text(), "the end of the script")

        wait_for(lambda: not scripts.is_known(script_id), "that it is forgotten")


def test_a_restarted_sandbox_reports_a_lost_script(tmp_path: Path) -> None:
    with running_sandbox(tmp_path, **SETTINGS) as sandbox:
        scripts = ScriptClient(sandbox)
        script_id = scripts.start("while True: pass", seconds=3600)
        assert scripts.is_known(script_id)
    with running_sandbox(tmp_path, **SETTINGS) as sandbox:
        scripts = ScriptClient(sandbox)
        answer = scripts.http.get(f"/v1/scripts/{script_id}", headers=scripts.headers)

    assert answer.json()["error"]["code"] == "script_not_found"
    assert "restarted" in answer.json()["error"]["message"]
