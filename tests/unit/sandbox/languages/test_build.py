"""Code is compiled when needed, and run any number of times."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from services.sandbox.execution import Execution, Limits, Outcome
from services.sandbox.languages import build as registry
from services.sandbox.languages.build import Languages, ProgramSource
from services.sandbox.languages.catalog import ToolchainMissing
from services.sandbox.languages.declaration import LanguageSpec
from tests.support.programs.subprocess_runner import SubprocessRunner
from tests.unit.sandbox.languages.toys import AddProgram, toy

LIMITS = Limits(seconds=30.0, memory_bytes=1 << 28, output_bytes=1000)
COMPILER = 'grep -q good "$3" || { echo "this is bad" >&2; exit 1; }\ncp "$3" "$2"'
INTERPRETER = 'cat "$1"; echo; cat'


@pytest.fixture
def runner(tmp_path: Path) -> SubprocessRunner:
    return SubprocessRunner(str(tmp_path / "programs"))


@pytest.fixture
def languages(
    runner: SubprocessRunner, add_program: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> Languages:
    add_program("toyc", COMPILER)
    add_program("toy", INTERPRETER)
    _declare(monkeypatch, toy())
    return Languages(runner, cache_bytes=1 << 20)


def _declare(monkeypatch: pytest.MonkeyPatch, language: LanguageSpec) -> None:
    monkeypatch.setattr(registry, "LANGUAGES", {"toy": language})


def test_one_build_is_run_many_times(languages: Languages, runner: SubprocessRunner) -> None:
    async def scenario() -> list[bytes]:
        build = await languages.build(ProgramSource("toy", b"good"), LIMITS)
        assert build.ready
        return [(await languages.run(build, LIMITS, stdin=text)).stdout for text in (b"1", b"2")]

    assert asyncio.run(scenario()) == [b"good\n1", b"good\n2"]
    assert len(runner.ran) == 3


def test_code_that_does_not_compile_is_not_ready(languages: Languages) -> None:
    build = asyncio.run(languages.build(ProgramSource("toy", b"ugly"), LIMITS))
    assert not build.ready
    assert build.outcome is not None
    assert build.outcome.stderr == b"this is bad\n"


def test_a_cached_compilation_is_free_and_equal(
    languages: Languages, runner: SubprocessRunner
) -> None:
    async def scenario() -> None:
        first = await languages.build(ProgramSource("toy", b"good"), LIMITS)
        second = await languages.build(ProgramSource("toy", b"good"), LIMITS)
        assert (first.cached, second.cached) == (False, True)
        assert first.outcome is not None
        assert second.outcome == replace(
            first.outcome, wall_seconds=0.0, cpu_seconds=0.0, peak_memory_bytes=0
        )
        assert (await languages.run(second, LIMITS)).stdout == b"good\n"

    asyncio.run(scenario())
    assert len(runner.ran) == 2


def test_large_sources_are_cached_too(languages: Languages) -> None:
    async def scenario() -> None:
        large = ProgramSource("toy", b"good" + bytes(2 << 20))
        cached = [(await languages.build(large, LIMITS)).cached for _ in range(2)]
        assert cached == [False, False]  # larger than the cache
        small = ProgramSource("toy", b"good", {"data": bytes(2 << 20)})
        cached = [(await languages.build(small, LIMITS)).cached for _ in range(2)]
        assert cached == [False, True]

    asyncio.run(scenario())


def test_interpreted_languages_need_no_build(
    languages: Languages, runner: SubprocessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    _declare(monkeypatch, toy(compile=(), artifacts=()))
    build = asyncio.run(languages.build(ProgramSource("toy", b"ugly"), LIMITS))
    assert build.ready
    assert build.outcome is None
    assert runner.ran == []


def test_a_missing_toolchain_is_reported_and_nothing_runs(
    languages: Languages, runner: SubprocessRunner, tmp_path: Path
) -> None:
    (tmp_path / "programs" / "toyc").unlink()
    with pytest.raises(ToolchainMissing, match="apt-get install toy-lang"):
        asyncio.run(languages.build(ProgramSource("toy", b"good"), LIMITS))
    assert runner.ran == []


def test_a_too_large_program_is_a_failed_compilation(
    languages: Languages, runner: SubprocessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner.run

    async def run_with_little_room(execution: Execution) -> Outcome:
        return replace(await run(execution), files={}, left_out=("main.bin",))

    monkeypatch.setattr(runner, "run", run_with_little_room)
    build = asyncio.run(languages.build(ProgramSource("toy", b"good"), LIMITS))

    assert not build.ready
    assert build.outcome is not None
    assert build.outcome.return_code == 1
    assert build.outcome.stderr.endswith(b"the compiled program is too large: main.bin\n")
