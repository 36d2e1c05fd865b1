"""The whole stack on an engine, with the commands of docs/operations/docker.md.

The images are built by the Dockerfile on stand-ins for what Docker Hub has; children of trainer
and evaluator are stand-ins, everything else is real.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from services.contracts.jobs import JobStatus
from tests.support.docker.engine import Engine, running_engine, skip_if_the_firewall_drops
from tests.support.docker.light_images import build_images, copy_project
from tests.support.docker.metadata import metadata_service
from tests.support.docs.blocks import blocks_of
from tests.support.processes import REPOSITORY, free_port
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.docker, pytest.mark.long]

COMMAND_SECONDS = 600.0
MARK = "tested: "
RECOVERY_SECONDS = 300.0
"""Above the lease of a killed worker, on a busy machine."""
ASK = (
    "import os, urllib.request as web; "
    "key = {'Authorization': 'Bearer ' + os.environ['NAME']}; "
    "web.urlopen(web.Request('http://api:8080/v1/models', headers=key), timeout=60)"
)
"""A worker asks the gateway with the key in a variable."""


@dataclass
class Operator:
    """Somebody with a checkout, a shell and an engine."""

    engine: Engine
    url: str
    blocks: dict[str, str]

    def follow(self, title: str) -> str:
        """Run a block of the page as it is."""
        return self.run(self.blocks.pop(title))

    def run(self, code: str, *, expected: int = 0) -> str:
        """Run a shell command in the checkout; return what it printed."""
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=self.engine.project,
            env=self.engine.shell(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == expected, f"{code}\nended with {done.returncode}:\n{said}"
        return said

    def set(self, name: str, value: str) -> None:
        """Set a variable in the checkout's .env."""
        with (self.engine.project / ".env").open("a") as file:
            file.write(f"{name}={value}\n")

    def get(self, path: str) -> Any:
        """The gateway's answer."""
        return httpx.get(f"{self.url}{path}", timeout=60).raise_for_status().json()

    def job(self, job_id: str) -> dict[str, Any]:
        """A job, or nothing while the gateway is away."""
        with contextlib.suppress(httpx.HTTPError):
            found: dict[str, Any] = self.get(f"/v1/fine_tuning/jobs/{job_id}")
            return found
        return {"status": "unknown"}

    def is_healthy(self) -> bool:
        return set(self.engine.health().values()) == {"healthy"}


@pytest.fixture(scope="module")
def operator() -> Iterator[Operator]:
    page = (REPOSITORY / "docs" / "operations" / "docker.md").read_text()
    marked = [block for block in blocks_of(page) if block.mark.startswith(MARK)]
    blocks = {block.mark.removeprefix(MARK): block.code for block in marked}
    with running_engine() as engine:
        skip_if_the_firewall_drops()
        engine.folder.chmod(0o755)
        engine.project = engine.folder / "checkout"
        copy_project(engine.project)
        build_images(engine)
        port = free_port()
        operator = Operator(engine, f"http://127.0.0.1:{port}", blocks)
        operator.set("TEMPER_PORT", str(port))
        operator.set("HEALTH_INTERVAL", "5s")
        yield operator


def test_the_first_hour_and_a_year_of_operations(operator: Operator) -> None:
    operator.follow("start")
    assert operator.is_healthy()
    tuned = first_job(operator)
    use(operator, tuned)
    survive_kills(operator)

    assert "trainer" in operator.follow("logs")
    operator.follow("scale")
    assert len(workers(operator, "training")) == 2
    operator.follow("password")
    use(operator, tuned)

    with metadata_service() as address:
        assert ask_metadata(operator, address) == "nothing"
        operator.follow("metadata")
        assert ask_metadata(operator, address) == "credentials"

    operator.follow("backup")
    job = begin_endless_job(operator)
    operator.follow("upgrade")
    wait_for_step(operator, job)
    assert operator.job(job)["status"] == JobStatus.RUNNING

    operator.follow("restore")
    use(operator, tuned)
    assert operator.job(job)["status"] == "unknown"  # it began after the backup
    assert operator.blocks == {}  # every command of the page was run
    ask_for_keys(operator)


def first_job(operator: Operator) -> str:
    """Bring a model in and tune it; return the tuned model's name."""
    folder = operator.engine.project / "models" / "tiny-base"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["X"]}')
    (folder / "model.safetensors").write_bytes(len(b"{}").to_bytes(8, "little") + b"{}")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)  # as Temper writes its own
    operator.set("TEMPER_MODELS", str(folder.parent))
    operator.run("docker compose up --wait")
    register = "docker compose run --rm cli models register my-model --folder tiny-base"
    refused = operator.run(f"{register} 2>&1 || true")
    assert "cannot be read by user 10001" in " ".join(refused.split())
    operator.run("chmod -R a+rX models")

    said = operator.follow("first job")
    assert "succeeded" in said
    (job,) = operator.get("/v1/fine_tuning/jobs")["data"]
    return str(job["fine_tuned_model"])


def use(operator: Operator, model: str) -> None:
    """Run code, search, and chat with the tuned model."""
    program = {"code": "print(6 * 7)", "language": "python"}
    ran = httpx.post(f"{operator.url}/run_code", json=program, timeout=120).json()
    assert ran["run_result"]["stdout"] == "42\n"

    def found() -> Any:
        query = {"queries": ["serialize object to JSON"], "topk": 1}
        answer = httpx.post(f"{operator.url}/retrieve", json=query, timeout=60)
        return answer.json()["result"] if answer.status_code == 200 else None

    assert wait_for(found, "the default index answers", RECOVERY_SECONDS)
    said = operator.run(f"docker compose run --rm -T cli chat {model} hello")
    assert "one two" in said  # of the stand-in for an engine


def survive_kills(operator: Operator) -> None:
    """Kill stores, a worker and the gateway under a running job."""
    job = begin_endless_job(operator)
    for name in ("postgres", "redis", "trainer", "api"):
        kill(operator.engine, name)
        wait_for(operator.is_healthy, f"all are healthy after {name}", RECOVERY_SECONDS)
        wait_for_step(operator, job)
    assert operator.job(job)["status"] == JobStatus.RUNNING
    httpx.post(f"{operator.url}/v1/fine_tuning/jobs/{job}/cancel", timeout=60).raise_for_status()
    wait_for(lambda: operator.job(job)["status"] == "cancelled", "it ends", RECOVERY_SECONDS)


def begin_endless_job(operator: Operator) -> str:
    """A job that trains until it is cancelled."""
    example = (operator.engine.project / "examples" / "fine_tune.yaml").read_text()
    endless = operator.engine.project / "examples" / "endless.yaml"
    endless.write_text(example.replace("suffix: addition", "suffix: forever"))
    job = str(printed(operator, "submit examples/endless.yaml --json")["id"])
    wait_for_step(operator, job)
    return job


def wait_for_step(operator: Operator, job: str) -> None:
    """Wait until a job goes on from where it is."""
    before = step(operator, job)
    wait_for(lambda: step(operator, job) > before, f"{job} goes on", RECOVERY_SECONDS)


def step(operator: Operator, job: str) -> int:
    return int((operator.job(job).get("progress") or {}).get("step") or 0)


def printed(operator: Operator, command: str) -> dict[str, Any]:
    """What the command line prints as JSON, between what Docker Compose says."""
    said = operator.run(f"docker compose run --rm -T cli {command}")
    found: dict[str, Any] = json.loads(said[said.index("{") : said.rindex("}") + 1])
    return found


def ask_for_keys(operator: Operator) -> None:
    """Set what the page's table names: only those with a key are served, workers among them."""
    mine, theirs = (printed(operator, "keys new --json") for _ in range(2))
    operator.set("TEMPER_ALLOW_KEYLESS", "false")
    operator.set("TEMPER_API_KEY_HASHES", f"{mine['sha256']},{theirs['sha256']}")
    operator.set("TEMPER_API_KEY", mine["key"])
    operator.set("TEMPER_SANDBOX_API_KEY", theirs["key"])
    operator.set("TEMPER_GATEWAY_API_KEY", theirs["key"])
    operator.run("docker compose up --wait")

    assert httpx.get(f"{operator.url}/v1/models", timeout=60).status_code == 401
    operator.run("docker compose run --rm -T cli ps")
    for service, name in (("trainer", "SANDBOX"), ("campaigns", "GATEWAY")):
        asked = shlex.quote(ASK.replace("NAME", f"TEMPER_{name}_API_KEY"))
        operator.run(f"docker compose exec -T {service} python -c {asked}")


def ask_metadata(operator: Operator, address: tuple[str, int]) -> str:
    """What a worker is told at an address of this machine."""
    host, port = address
    asked = f"timeout 5 cat < /dev/tcp/{host}/{port} || echo nothing"
    said = operator.run(f"docker compose exec -T trainer bash -c {shlex.quote(asked)} 2> /dev/null")
    return said.strip()


def workers(operator: Operator, queue: str) -> list[dict[str, Any]]:
    return [each for each in operator.get("/v1/workers")["data"] if queue in str(each["queues"])]


def kill(engine: Engine, service: str) -> None:
    """Kill the first process of a container, which its restart policy notices."""
    before = engine.containers()[service]
    os.kill(before["State"]["Pid"], signal.SIGKILL)
    began = before["State"]["StartedAt"]
    wait_for(
        lambda: engine.containers()[service]["State"]["StartedAt"] != began, f"{service} restarts"
    )
