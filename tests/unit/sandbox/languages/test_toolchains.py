"""Toolchains are located; for missing ones the message says what to install."""

from pathlib import Path

import pytest

from services.sandbox.languages.catalog import ToolchainMissing, find_toolchain
from tests.unit.sandbox.languages.toys import AddProgram, toy


def test_a_missing_program_is_named_with_its_packages(
    add_program: AddProgram,
) -> None:
    add_program("toy")
    with pytest.raises(ToolchainMissing) as missing:
        find_toolchain(toy())
    assert "toyc is missing" in missing.value.message
    assert "apt-get install toy-lang" in missing.value.message


def test_a_missing_toolchain_without_package_names_its_source(add_program: AddProgram) -> None:
    add_program("toy")
    with pytest.raises(ToolchainMissing, match=r"needs Toy from toy\.example"):
        find_toolchain(toy(debian=(), elsewhere="Toy from toy.example"))


def test_a_non_executable_program_counts_as_missing(add_program: AddProgram) -> None:
    add_program("toy")
    add_program("toyc").chmod(0o644)
    with pytest.raises(ToolchainMissing, match="toyc is missing"):
        find_toolchain(toy())


def test_the_first_installed_alternative_is_chosen(add_program: AddProgram) -> None:
    language = toy(compile=("toyc|toyc2|toyc3", "main.toy"))
    for name in ("toy", "toyc3", "toyc2"):
        add_program(name)
    assert find_toolchain(language).programs["toyc|toyc2|toyc3"] == "toyc2"


def test_required_files_are_found_by_pattern(add_program: AddProgram, tmp_path: Path) -> None:
    add_program("toy")
    add_program("toyc")
    language = toy(present={"library": f"{tmp_path}/none|{tmp_path}/toy-*.lib"})
    with pytest.raises(ToolchainMissing, match="none is missing"):
        find_toolchain(language)
    library = tmp_path / "toy-1.lib"
    library.touch()
    assert find_toolchain(language).paths == {"library": str(library)}


def test_optional_paths_may_be_missing(add_program: AddProgram, tmp_path: Path) -> None:
    add_program("toy")
    add_program("toyc")
    assert find_toolchain(toy(optional={"extra": f"{tmp_path}/extra"})).paths == {"extra": ""}


def test_a_compiler_upgrade_changes_the_identity(add_program: AddProgram) -> None:
    add_program("toy")
    add_program("toyc", "echo 1")
    before = find_toolchain(toy())
    add_program("toyc", "echo version two")
    after = find_toolchain(toy())
    assert before.identity != after.identity
    assert before.compiler != after.compiler
