"""Available languages have a version, others a reason."""

import asyncio
from pathlib import Path

import pytest

from services.sandbox.languages import availability
from services.sandbox.languages.availability import Availability, Probes
from tests.support.programs.subprocess_runner import SubprocessRunner
from tests.unit.sandbox.languages.toys import AddProgram, toy


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SubprocessRunner:
    monkeypatch.setattr(availability, "LANGUAGES", {"toy": toy()})
    return SubprocessRunner(str(tmp_path / "programs"))


def _asked(probes: Probes) -> Availability:
    (found,) = asyncio.run(probes.all())
    return found


def test_versions_come_from_the_toolchain_inside_the_sandbox(
    runner: SubprocessRunner, add_program: AddProgram
) -> None:
    add_program("toyc")
    add_program("toy", "echo 'toy compiler, version v1.22.3-beta (2020)' >&2")
    assert _asked(Probes(runner)) == Availability("toy", True, "1.22.3-beta", "")


def test_a_missing_toolchain_is_reported_without_running_anything(
    runner: SubprocessRunner, add_program: AddProgram
) -> None:
    add_program("toy", "echo 1.0")
    found = _asked(Probes(runner))
    assert not found.available
    assert "toyc is missing" in found.message
    assert runner.ran == []


def test_a_failing_toolchain_is_reported_with_its_last_output(
    runner: SubprocessRunner, add_program: AddProgram
) -> None:
    add_program("toyc")
    add_program("toy", "echo first >&2; echo 'libtoy.so: not found' >&2; exit 127")
    found = _asked(Probes(runner))
    assert not found.available
    assert found.message.endswith("is installed but does not work here: libtoy.so: not found")


def test_concurrent_requests_share_one_probe(
    runner: SubprocessRunner, add_program: AddProgram
) -> None:
    add_program("toyc")
    add_program("toy", "echo 1.0")

    async def scenario() -> None:
        probes = Probes(runner)
        await asyncio.gather(*(probes.all() for _ in range(5)))
        await probes.all()

    asyncio.run(scenario())
    assert len(runner.ran) == 1


def test_a_toolchain_upgrade_is_noticed(runner: SubprocessRunner, add_program: AddProgram) -> None:
    add_program("toyc")
    add_program("toy", "echo 1.0")

    async def scenario() -> list[str | None]:
        probes = Probes(runner)
        before = await probes.all()
        add_program("toy", "echo version 2.0")
        after = await probes.all()
        return [before[0].version, after[0].version]

    assert asyncio.run(scenario()) == ["1.0", "2.0"]
