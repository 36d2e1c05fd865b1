from dataclasses import replace
from pathlib import Path

import pytest

from infra.core.stamp import (
    STAMP,
    Stamp,
    Step,
    missing_steps,
    read_stamp,
    wanted_stamp,
    write_stamp,
)

WANTED = Stamp(python="3.11.2", folder="/x/.venv", core="c1", project="p1", dev="d1")
CORE_ONLY = replace(WANTED, dev=None)
ALL = [Step.CREATE, Step.CORE, Step.DEV, Step.PROJECT]


@pytest.mark.parametrize(
    ("found", "dev", "steps"),
    [
        (None, False, [Step.CREATE, Step.CORE, Step.PROJECT]),
        (None, True, ALL),
        (WANTED, True, []),
        (WANTED, False, []),
        (CORE_ONLY, False, []),
        (CORE_ONLY, True, [Step.DEV]),
        (replace(CORE_ONLY, project="p0"), False, [Step.PROJECT]),
        (replace(CORE_ONLY, core="c0"), False, [Step.CREATE, Step.CORE, Step.PROJECT]),
        (replace(CORE_ONLY, python="3.11.1"), False, [Step.CREATE, Step.CORE, Step.PROJECT]),
        (replace(CORE_ONLY, folder="/y/.venv"), False, [Step.CREATE, Step.CORE, Step.PROJECT]),
        (replace(WANTED, dev="d0"), True, ALL),
        (replace(WANTED, dev="d0"), False, []),
    ],
)
def test_only_what_is_missing_is_installed(
    found: Stamp | None, dev: bool, steps: list[Step]
) -> None:
    assert missing_steps(found, WANTED, dev=dev) == steps


def test_a_rebuilt_environment_keeps_its_dev_tools() -> None:
    assert missing_steps(replace(WANTED, core="c0"), WANTED, dev=False) == ALL


def test_a_stamp_round_trips(tmp_path: Path) -> None:
    environment = _environment(tmp_path)
    write_stamp(environment, WANTED)
    assert read_stamp(environment) == WANTED


@pytest.mark.parametrize("content", ["", "{", "[]", '{"python": "3.11.2"}'])
def test_a_corrupt_stamp_counts_as_missing(tmp_path: Path, content: str) -> None:
    environment = _environment(tmp_path)
    (environment / STAMP).write_text(content)
    assert read_stamp(environment) is None


def test_an_environment_without_its_python_counts_as_missing(tmp_path: Path) -> None:
    environment = _environment(tmp_path)
    write_stamp(environment, WANTED)
    (environment / "bin" / "python").unlink()
    assert read_stamp(environment) is None


def test_tool_settings_do_not_invalidate_the_stamp(tmp_path: Path) -> None:
    requirements = tmp_path / "infra" / "requirements"
    requirements.mkdir(parents=True)
    for name in ("core.txt", "dev.txt"):
        (requirements / name).write_text("")
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "toy"\n')
    before = wanted_stamp(tmp_path, tmp_path / ".venv")
    project.write_text('[tool.ruff]\nline-length = 80\n[project]\nname = "toy"\n')
    assert wanted_stamp(tmp_path, tmp_path / ".venv") == before
    project.write_text('[project]\nname = "toy"\nscripts = {toy = "toy:main"}\n')
    assert wanted_stamp(tmp_path, tmp_path / ".venv").project != before.project


def _environment(folder: Path) -> Path:
    (folder / "bin").mkdir()
    (folder / "bin" / "python").write_text("")
    return folder
