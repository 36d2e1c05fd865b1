"""Somebody who runs the stack of docker-compose.yml, with the commands of its page."""

import contextlib
import json
import subprocess
from dataclasses import dataclass
from typing import Any

import httpx

from services.contracts.jobs import JobStatus
from tests.support.docker.engine import Engine
from tests.support.docs.blocks import blocks_of
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

COMMAND_SECONDS = 600.0
RECOVERY_SECONDS = 300.0
"""Above the lease of a killed worker, on a busy machine."""
MARK = "tested: "


def commands_of_the_page() -> dict[str, str]:
    """The marked shell blocks of the page on Docker, by title."""
    page = (REPOSITORY / "docs" / "operations" / "docker.md").read_text()
    marked = [block for block in blocks_of(page) if block.mark.startswith(MARK)]
    return {block.mark.removeprefix(MARK): block.code for block in marked}


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

    def printed(self, command: str) -> dict[str, Any]:
        """What the command line prints as JSON, between what Docker Compose says."""
        said = self.run(f"docker compose run --rm -T cli {command}")
        found: dict[str, Any] = json.loads(said[said.index("{") : said.rindex("}") + 1])
        return found

    def submit(self, suffix: str) -> str:
        """Submit the example of a fine-tune under another suffix; return the job's id."""
        example = (self.engine.project / "examples" / "fine_tune.yaml").read_text()
        own = self.engine.project / "examples" / f"{suffix}.yaml"
        own.write_text(example.replace("suffix: addition", f"suffix: {suffix}"))
        return str(self.printed(f"submit examples/{suffix}.yaml --json")["id"])

    def step(self, job_id: str) -> int:
        """How far a job has come."""
        return int((self.job(job_id).get("progress") or {}).get("step") or 0)

    def wait_for_step(self, job_id: str) -> None:
        """Wait until a job goes on from where it is."""
        before = self.step(job_id)
        wait_for(lambda: self.step(job_id) > before, f"{job_id} goes on", RECOVERY_SECONDS)

    def begin_endless_job(self) -> str:
        """A job that trains until it is cancelled."""
        job = self.submit("forever")
        self.wait_for_step(job)
        return job

    def cancel(self, job_id: str) -> None:
        """Cancel a job, and wait until it has ended."""
        asked = httpx.post(f"{self.url}/v1/fine_tuning/jobs/{job_id}/cancel", timeout=60)
        asked.raise_for_status()
        wait_for(
            lambda: self.job(job_id)["status"] == JobStatus.CANCELLED,
            f"{job_id} ends",
            RECOVERY_SECONDS,
        )

    def is_healthy(self) -> bool:
        return set(self.engine.health().values()) == {"healthy"}
