"""Code and files become executions as declared; equal ones have equal keys."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from services.sandbox.execution import Executable, Limits, PythonFile
from services.sandbox.languages.build import Plan, ProgramSource
from services.sandbox.languages.catalog import find_toolchain
from services.sandbox.languages.declaration import LanguageSpec, PreparationSpec
from services.sandbox.languages.preparation import folder_name
from tests.unit.sandbox.languages.toys import AddProgram, toy

LIMITS = Limits(seconds=5.0, memory_bytes=100 << 20, output_bytes=1000)


@pytest.fixture(autouse=True)
def toolchain(add_program: AddProgram) -> None:
    add_program("toy")
    add_program("toyc")


def _plan(
    language: LanguageSpec,
    code: bytes = b"code",
    files: Mapping[str, bytes] | None = None,
    prepared: Path | None = None,
) -> Plan:
    source = ProgramSource(language.name, code, files or {})
    return Plan(language, find_toolchain(language), source, prepared)


def _words(plan: Plan) -> tuple[str, ...]:
    command = plan.compilation(LIMITS).command
    assert isinstance(command, Executable)
    return command.arguments


def test_the_program_gets_the_compilers_artifacts() -> None:
    plan = _plan(toy(), files={"data.txt": b"data"})
    compilation = plan.compilation(LIMITS)
    assert compilation.files == {"main.toy": b"code", "data.txt": b"data"}
    assert compilation.fetch == ("main.bin",)
    execution = plan.execution(LIMITS, {"main.bin": b"program"}, b"in", ("out.txt",))
    assert execution.files == {"main.toy": b"code", "data.txt": b"data", "main.bin": b"program"}
    assert execution.executable_files == {"main.bin"}
    assert (execution.stdin, execution.fetch) == (b"in", ("out.txt",))


def test_the_compiler_gets_enough_memory_and_the_program_its_limit() -> None:
    plan = _plan(toy(compiler_mb=500))
    assert plan.compilation(LIMITS).limits.memory_bytes == 500 << 20
    assert plan.compilation(LIMITS).limits.seconds == LIMITS.seconds
    assert plan.execution(LIMITS, {}, b"", ()).limits == LIMITS


def test_a_managed_heap_is_smaller_than_the_memory_limit() -> None:
    plan = _plan(toy(run=Executable(("toy", "-heap={heap}")), environment={"HEAP": "{heap}M"}))
    execution = plan.execution(LIMITS, {}, b"", ())
    assert execution.command == Executable(("toy", "-heap=65"))
    assert execution.environment == {"HEAP": "65M"}


def test_words_without_a_value_are_dropped(tmp_path: Path) -> None:
    language = toy(
        compile=("toyc", "-l{extra}", "main.toy"), optional={"extra": f"{tmp_path}/extra"}
    )
    assert _words(_plan(language)) == ("toyc", "main.toy")
    (tmp_path / "extra").touch()
    assert _words(_plan(language)) == ("toyc", f"-l{tmp_path}/extra", "main.toy")


def test_all_sources_are_listed_and_none_parses_as_an_option() -> None:
    files = {"b.toy": b"", "lib/a.toy": b"", "-o.toy": b"", "@a.toy": b"", "data.txt": b""}
    every = _words(_plan(toy(compile=("toyc", "{sources}")), files=files))
    assert every == ("toyc", "main.toy", "./-o.toy", "./@a.toy", "b.toy", "lib/a.toy")
    siblings = _words(_plan(toy(compile=("toyc", "{siblings}")), files=files))
    assert siblings == ("toyc", "main.toy", "./-o.toy", "./@a.toy", "b.toy")


def test_names_parsed_from_the_code_are_filled_in() -> None:
    language = toy(
        source="{file}.toy",
        compile=("toyc", "{file}.toy"),
        facts=lambda code: {"file": code.decode()},
    )
    plan = _plan(language, b"Name")
    assert plan.compilation(LIMITS).files == {"Name.toy": b"Name"}
    assert _words(plan) == ("toyc", "Name.toy")


def test_code_replaces_a_given_file_unless_it_is_empty() -> None:
    given = {"main.toy": b"given"}
    assert _plan(toy(), b"code", given).compilation(LIMITS).files == {"main.toy": b"code"}
    assert _plan(toy(), b"", given).compilation(LIMITS).files == given


def test_prepared_folders_are_used_once_they_exist(tmp_path: Path) -> None:
    language = toy(
        compile=("toyc", "-I{prepared}", "main.toy"),
        preparation=PreparationSpec(command=("toyc",), products=("x",), files={}),
    )
    assert _words(_plan(language, prepared=tmp_path)) == ("toyc", "main.toy")
    assert language.preparation is not None
    folder = tmp_path / folder_name(language.preparation, find_toolchain(language))
    folder.mkdir()
    assert _words(_plan(language, prepared=tmp_path)) == ("toyc", f"-I{folder}", "main.toy")


def test_equal_programs_have_one_key() -> None:
    files = {"a": b"1", "b": b"2"}
    backwards = dict(reversed(files.items()))
    assert _plan(toy(), files=files).key() == _plan(toy(), files=backwards).key()


def test_any_difference_changes_the_cache_key(add_program: AddProgram) -> None:
    plans = [
        _plan(toy()),
        _plan(toy(), b"other"),
        _plan(toy(), files={"a": b"1"}),
        _plan(toy(), files={"a": b"2"}),
        _plan(toy(), files={"b": b"1"}),
        _plan(toy(), files={"main.toya": b"", "main.toy": b""}),
        _plan(toy(compile=("toyc", "-O2", "-o", "main.bin", "main.toy"))),
        _plan(toy(name="other")),
    ]
    add_program("toyc", "echo another version")
    plans.append(_plan(toy()))
    assert len({plan.key() for plan in plans}) == len(plans)


def test_python_plans_carry_the_imports() -> None:
    language = toy(compile=(), artifacts=(), run=PythonFile("main.toy"))
    plan = _plan(language, b"import numpy")
    assert not plan.compiled
    assert plan.execution(LIMITS, {}, b"", ()).imports == {"numpy"}
