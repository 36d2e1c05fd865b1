"""A Python program exits in the sandbox as it does under Python itself."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from services.sandbox.execution import Execution, Limits, Outcome, PythonFile
from services.sandbox.isolation.tier import Tier
from services.sandbox.pool.protocol import BASIC_ENVIRONMENT
from tests.integration.sandbox.python_programs import (
    concurrency,
    endings,
    errors,
    modules,
    packages,
    streams,
    surroundings,
)
from tests.integration.sandbox.python_programs.program import Program
from tests.support.programs.sandbox_pool import PoolInThread, running_pool
from tests.support.runtimes import installed_runtime

SECONDS = 120
LIMITS = Limits(seconds=SECONDS, memory_bytes=1 << 30, output_bytes=16 << 20)
SUBJECTS = (errors, endings, streams, surroundings, modules, concurrency, packages)
VARIES_BETWEEN_RUNS = (
    (re.compile(rb"/tmp/temper-sandbox-[\w-]+/\d+(?=/)"), b""),
    (re.compile(rb"0x[0-9a-f]{6,}"), b"ADDRESS"),
    (re.compile(rb"(?<=object refcount : )\d+"), b"COUNT"),
    (re.compile(rb"\b\d+\.\d\d+s\b"), b"TIME"),
    (re.compile(rb"=+ (?=.* in TIME)|(?<=in TIME) =+"), b""),
)


@dataclass(frozen=True)
class Ended:
    """What a user sees of a finished program."""

    return_code: int | None
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes]


@pytest.fixture(
    scope="module", params=[Tier.FULL, pytest.param(Tier.CONTAINER, marks=pytest.mark.variant)]
)
def tier(request: pytest.FixtureRequest) -> Tier:
    chosen: Tier = request.param
    if chosen is Tier.CONTAINER and os.geteuid() != 0:
        pytest.skip("only root can give every program a user id of its own")
    return chosen


@pytest.fixture(scope="module")
def sandbox(tier: Tier) -> Iterator[PoolInThread]:
    with running_pool(tier=tier) as pool:
        yield pool


def cases() -> list[ParameterSet]:
    return [
        pytest.param(program, id=f"{subject.__name__.rpartition('.')[2]}: {name}")
        for subject in SUBJECTS
        for name, program in subject.PROGRAMS.items()
    ]


@pytest.mark.parametrize("program", cases())
def test_programs_exit_as_in_python(
    program: Program,
    sandbox: PoolInThread,
    tmp_path: Path,
    tier: Tier,
    request: pytest.FixtureRequest,
) -> None:
    differs = program.known_difference
    if tier is Tier.CONTAINER:
        differs = differs or program.difference_in_container
    if differs is not None:
        request.applymarker(pytest.mark.xfail(reason=differs, strict=True))
    expected = by_python(program, tmp_path)

    outcome = sandbox.call(sandbox.pool.run(execution(program)))

    assert seen(outcome) == expected


def execution(program: Program) -> Execution:
    return Execution(
        program.command,
        LIMITS,
        files=program.all_files,
        stdin=program.stdin,
        fetch=("*.txt",),
        imports=program.imports,
    )


def by_python(program: Program, folder: Path) -> Ended:
    """Run it with the same interpreter in a fresh folder."""
    workspace = folder / "workspace"
    workspace.mkdir()
    for name, data in program.all_files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(data)
    command = program.command
    what = [command.file] if isinstance(command, PythonFile) else ["-m", command.module]
    python = str(installed_runtime("sandbox").python)
    # Short, as a program's own: sockets that it makes there have names of 107 bytes at most.
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary:
        places = {"HOME": str(workspace), "PWD": str(workspace), "TMPDIR": temporary}
        ended = subprocess.run(
            # The tests' parent may have ignored signals, as nohup does.
            ["env", "--default-signal", python, *what, *command.arguments],
            cwd=workspace,
            env={**BASIC_ENVIRONMENT, **places},
            stdin=None if program.stdin else subprocess.DEVNULL,
            input=program.stdin or None,
            capture_output=True,
            timeout=SECONDS,
            check=False,
            umask=0o022,
        )

    def normalized(output: bytes) -> bytes:
        there = output.replace(temporary.encode(), b"/tmp").replace(str(folder).encode(), b"")
        return without_random_parts(there)

    files = {path.name: path.read_bytes() for path in workspace.glob("*.txt")}
    return Ended(ended.returncode, normalized(ended.stdout), normalized(ended.stderr), files)


def seen(outcome: Outcome) -> Ended:
    output = without_random_parts(outcome.stdout), without_random_parts(outcome.stderr)
    return Ended(outcome.return_code, *output, dict(outcome.files))


def without_random_parts(output: bytes) -> bytes:
    """Replace what differs in every run."""
    for pattern, word in VARIES_BETWEEN_RUNS:
        output = pattern.sub(word, output)
    return output


RANDOM = """
import os, random, secrets, ssl, tempfile, uuid
print(random.random(), random.Random().random(), random.SystemRandom().random(), sep="\\n")
print(secrets.token_hex(), os.urandom(8), ssl.RAND_bytes(8), uuid.uuid4(), sep="\\n")
print(tempfile.mktemp())
"""
RANDOM_OF_PACKAGES = """
import numpy, scipy.stats, networkx, sklearn.utils, sympy.core.random
print(numpy.random.rand(), numpy.random.default_rng().random(), sep="\\n")
print(scipy.stats.norm.rvs(), sklearn.utils.shuffle(range(50)), sep="\\n")
print(networkx.gnp_random_graph(40, 0.5).edges)
print(sympy.core.random.random(), sympy.core.random._assumptions_rng.random(), sep="\\n")
"""


@pytest.mark.parametrize(
    ("source", "imports"),
    [
        (RANDOM, set()),
        (RANDOM_OF_PACKAGES, {"numpy", "scipy", "networkx", "sklearn", "sympy"}),
    ],
    ids=["standard library", "packages"],
)
def test_every_run_has_different_random_seeds(
    source: str, imports: set[str], sandbox: PoolInThread
) -> None:
    run = execution(Program(source, imports=frozenset(imports)))

    drawn = [sandbox.call(sandbox.pool.run(run)).stdout.splitlines() for _ in range(2)]

    assert len(drawn[0]) == len(drawn[1]) > 5
    assert [first for first, second in zip(*drawn, strict=True) if first == second] == []
