"""A Docker engine of a test's own: its socket and all of its state are in one folder."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from infra.testing.compose import compose_command
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_for

START_SECONDS = 60.0
STOP_SECONDS = 60.0
COMMAND_SECONDS = 1200.0
"""Images are built on a busy machine."""
PROJECT = "temper"


@dataclass
class Engine:
    """A running engine, and Docker Compose for it."""

    folder: Path
    compose_program: Sequence[str]
    project: Path = REPOSITORY
    """The folder with the compose file."""
    variables: dict[str, str] = field(default_factory=dict)
    """Environment variables of Docker Compose, as an operator's shell has them."""
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def address(self) -> str:
        """The engine's socket, as ``DOCKER_HOST`` names it."""
        return f"unix://{self.folder / 'docker.sock'}"

    def start(self) -> None:
        """Start it on what its folder holds; skip the test where that is not possible.

        It neither changes the firewall nor makes the default bridge: compose files have networks
        of their own, published ports reach them through the engine's proxy, and builds use the
        host's network.
        """
        log = self.folder / "engine.log"
        command = [
            "dockerd",
            *("--host", self.address),
            *("--data-root", str(self.folder / "data")),
            *("--exec-root", str(self.folder / "exec")),
            *("--pidfile", str(self.folder / "engine.pid")),
            *("--bridge", "none", "--iptables=false", "--ip-forward=false"),
        ]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )
        wait_for(self._has_begun, "the engine answers or has ended", START_SECONDS)
        if self._process.poll() is not None:
            last = log.read_text(errors="replace").strip().splitlines()[-1]
            pytest.skip(f"no Docker engine can be started here: {last[-300:]}")

    def release(self) -> int:
        """The engine's major release."""
        version = self.docker("version", "--format", "{{.Server.Version}}")
        return int(version.partition(".")[0])

    def stop(self) -> None:
        """End it as a shutdown of the machine does, with all containers."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(STOP_SECONDS)

    def docker(self, *arguments: str, stdin: bytes | None = None) -> str:
        """Run the client; return its output."""
        return self._run(["docker", *arguments], {}, stdin)

    def compose(
        self,
        *arguments: str,
        files: Sequence[str] = (),
        stdin: bytes | None = None,
    ) -> str:
        """Run Docker Compose on the project's file, or on ``files``; return its output.

        A developer's own ``.env`` and ``settings.env`` in the repository are left out: paths are
        relative to the engine's folder there.
        """
        own: list[str] = []
        if self.project == REPOSITORY:
            own = ["--env-file", os.devnull, "--project-directory", str(self.folder)]
            files = files or ("docker-compose.yml",)
        named = [word for file in files for word in ("-f", file)]
        command = [*self.compose_program, *own, *named, *arguments]
        return self._run(command, self.variables, stdin)

    def shell(self) -> dict[str, str]:
        """The environment of a shell in which ``docker compose`` is this engine's."""
        plugins = self.folder / "client" / "cli-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        program = Path(self.compose_program[0]).resolve()
        if len(self.compose_program) == 1 and not (plugins / "docker-compose").exists():
            (plugins / "docker-compose").symlink_to(program)
        return self._environment({"DOCKER_CONFIG": str(plugins.parent), **self.variables})

    def containers(self) -> dict[str, dict[str, Any]]:
        """What the engine knows of each of the stack's containers, by the name of its service."""
        label = f"label=com.docker.compose.project={PROJECT}"
        ids = self.docker("ps", "--all", "--quiet", "--filter", label).split()
        inspected = json.loads(self.docker("inspect", *ids)) if ids else []
        return {each["Config"]["Labels"]["com.docker.compose.service"]: each for each in inspected}

    def health(self) -> dict[str, str]:
        """The health of each container, or its state where it does not run."""
        states = {name: each["State"] for name, each in self.containers().items()}
        return {
            name: state["Health"]["Status"] if state["Running"] else state["Status"]
            for name, state in states.items()
        }

    def _has_begun(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            return True
        asked = subprocess.run(
            ["docker", "version"], env=self._environment({}), capture_output=True, check=False
        )
        return asked.returncode == 0

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        # Ignore variables that the developer's shell sets for another engine or stack.
        ignored = ("COMPOSE_", "DOCKER_", "TEMPER_", "POSTGRES_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ignored)}
        return {**kept, "DOCKER_HOST": self.address, **variables}

    def _run(
        self, command: Sequence[str], variables: Mapping[str, str], stdin: bytes | None
    ) -> str:
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self._environment(variables),
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{errors}"
        return output


def skip_if_the_firewall_drops() -> None:
    """Skip a test whose containers ask each other, where another engine has closed the way.

    An engine sets this policy and opens it for its own networks alone.
    """
    called = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    rules = subprocess.run(
        ["iptables", "--list-rules", "FORWARD"], capture_output=True, text=True, check=False
    )
    if rules.stdout.startswith("-P FORWARD DROP") and called.exists() and "1" in called.read_text():
        pytest.skip("this machine's firewall drops what containers send to each other")


@contextlib.contextmanager
def running_engine() -> Iterator[Engine]:
    """An engine without images or containers; the test is skipped where none can be started."""
    if os.geteuid() != 0:
        pytest.skip("a Docker engine needs root")
    if shutil.which("dockerd") is None or shutil.which("docker") is None:
        pytest.skip("no Docker engine is installed; `make dev` says why")
    compose = compose_command()
    if compose is None:
        pytest.skip("Docker Compose is missing and could not be fetched; `make dev` says why")
    # Paths of sockets are short, so this is not one of pytest's folders.
    with tempfile.TemporaryDirectory(prefix="temper-engine-") as name:
        engine = Engine(Path(name), compose)
        try:
            engine.start()
            yield engine
        finally:
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                # An engine that ends leaves its networks' bridges on the machine.
                engine.compose("down", "--volumes", "--timeout", "1")
            engine.stop()
