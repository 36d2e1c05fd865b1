"""The whole stack on an engine, with the commands of docs/operations/docker.md.

The images are built by the Dockerfile on stand-ins for what Docker Hub has; children of trainer
and evaluator are stand-ins, everything else is real.
"""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from services.contracts.jobs import JobStatus
from tests.support.docker.engine import Engine, running_engine, skip_if_the_firewall_drops
from tests.support.docker.light_images import build_images
from tests.support.docker.metadata import metadata_service
from tests.support.docker.operator import RECOVERY_SECONDS, Operator, commands_of_the_page
from tests.support.docker.releases import Release, current, older_schema
from tests.support.docker.stand_in_base import make_base_images
from tests.support.processes import free_port
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.docker, pytest.mark.long]

ASK = (
    "import os, urllib.request as web; "
    "key = {'Authorization': 'Bearer ' + os.environ['NAME']}; "
    "web.urlopen(web.Request('http://api:8080/v1/models', headers=key), timeout=60)"
)
"""A worker asks the gateway with the key in a variable."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """An engine with the images that the project's own are built on."""
    with running_engine() as engine:
        skip_if_the_firewall_drops()
        engine.folder.chmod(0o755)
        engine.project = engine.folder / "checkout"
        engine.project.mkdir()
        make_base_images(engine, engine.folder)
        yield engine


@pytest.fixture
def operator(engine: Engine) -> Iterator[Operator]:
    """Somebody with an empty checkout, a shell and an engine."""
    port = free_port()
    operator = Operator(engine, f"http://127.0.0.1:{port}", commands_of_the_page())
    operator.set("TEMPER_PORT", str(port))
    operator.set("HEALTH_INTERVAL", "5s")
    yield operator
    operator.run("docker compose down --volumes --timeout 1")
    shutil.rmtree(engine.project)
    engine.project.mkdir()


def test_the_first_hour_and_a_year_of_operations(operator: Operator) -> None:
    check_out(operator, current())
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
    job = operator.begin_endless_job()
    operator.follow("upgrade")
    operator.wait_for_step(job)
    assert operator.job(job)["status"] == JobStatus.RUNNING

    operator.follow("restore")
    use(operator, tuned)
    assert operator.job(job)["status"] == "unknown"  # it began after the backup
    assert operator.blocks == {}  # every command of the page was run
    ask_for_keys(operator)


def test_an_upgrade_takes_jobs_into_another_schema(operator: Operator) -> None:
    older, newer = older_schema(), current()
    check_out(operator, older)
    bring_in(operator)
    operator.run("chmod -R a+rX models")
    operator.run("docker compose up --wait")
    operator.run("docker compose run --rm cli models register my-model --folder tiny-base")
    running, queued = operator.begin_endless_job(), operator.submit("later")
    reached = operator.step(running)
    assert operator.job(queued)["status"] == JobStatus.QUEUED
    assert schema(operator) == older.schema

    check_out(operator, newer)  # the old containers go on meanwhile
    operator.follow("upgrade")

    assert schema(operator) == newer.schema
    operator.wait_for_step(running)
    assert operator.step(running) > reached  # from where it was
    operator.cancel(running)
    wait_for(
        lambda: operator.job(queued)["status"] == JobStatus.SUCCEEDED,
        "the job that waited succeeds",
        RECOVERY_SECONDS,
    )


def check_out(operator: Operator, release: Release) -> None:
    """Put a release where the operator has the code, and build its images."""
    for path in operator.engine.project.iterdir():
        if path.name not in {".env", "models"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    release.copy(operator.engine.project)
    build_images(operator.engine)


def schema(operator: Operator) -> str:
    """The revision of the database's schema."""
    asked = "SELECT version_num FROM alembic_version"
    psql = f"psql --username=temper --tuples-only --command='{asked}'"
    return operator.run(f"docker compose exec -T postgres {psql}").strip()


def first_job(operator: Operator) -> str:
    """Bring a model in and tune it; return the tuned model's name."""
    bring_in(operator)
    operator.run("docker compose up --wait")
    register = "docker compose run --rm cli models register my-model --folder tiny-base"
    refused = operator.run(f"{register} 2>&1 || true")
    assert "cannot be read by user 10001" in " ".join(refused.split())
    operator.run("chmod -R a+rX models")

    said = operator.follow("first job")
    assert "succeeded" in said
    (job,) = operator.get("/v1/fine_tuning/jobs")["data"]
    # The same with the command line of the machine itself.
    temper = f"TEMPER_API_URL={operator.url} {shlex.quote(sys.executable)} -m temper"
    assert "succeeded" in operator.run(f"{temper} submit examples/fine_tune.yaml --follow")
    return str(job["fine_tuned_model"])


def bring_in(operator: Operator) -> None:
    """Put a model's files into the folder of models, readable as Temper writes its own."""
    folder = operator.engine.project / "models" / "tiny-base"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama", "architectures": ["X"]}')
    (folder / "model.safetensors").write_bytes(len(b"{}").to_bytes(8, "little") + b"{}")
    for path in (folder, *folder.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    operator.set("TEMPER_MODELS", str(folder.parent))


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
    job = operator.begin_endless_job()
    for name in ("postgres", "redis", "trainer", "api"):
        kill(operator.engine, name)
        wait_for(operator.is_healthy, f"all are healthy after {name}", RECOVERY_SECONDS)
        operator.wait_for_step(job)
    assert operator.job(job)["status"] == JobStatus.RUNNING
    operator.cancel(job)


def ask_for_keys(operator: Operator) -> None:
    """Set what the page's table names: only those with a key are served, workers among them."""
    mine, theirs = (operator.printed("keys new --json") for _ in range(2))
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
