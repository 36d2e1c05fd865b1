"""The core environment's installer on a toy checkout: real environments, no network."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.core.command import main
from infra.core.stamp import STAMP
from tests.unit.infra.toy_project import make_toy_project

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    folder.mkdir()
    return make_toy_project(folder)


def _modules(checkout: Path) -> set[str]:
    return {path.stem for path in checkout.glob(".venv/lib/*/site-packages/*.py")}


def test_the_environment_is_created_once_then_reused_and_extended(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], checkout) == 0
    assert _modules(checkout) >= {"used", "toy"}
    assert "tested" not in _modules(checkout)
    assert main([], checkout) == 0
    assert capsys.readouterr().out.endswith("core environment: ready, reused\n")
    assert main(["--dev"], checkout) == 0
    assert _modules(checkout) >= {"used", "toy", "tested"}
    assert main([], checkout) == 0
    assert capsys.readouterr().out.endswith("core environment: ready, reused\n")


def test_an_incomplete_environment_is_replaced(checkout: Path) -> None:
    assert main([], checkout) == 0
    (checkout / ".venv" / STAMP).unlink()
    leftover = checkout / ".venv" / "leftover"
    leftover.touch()
    assert main([], checkout) == 0
    assert not leftover.exists()


def test_a_failed_installation_is_incomplete_and_shows_the_cause(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = checkout / "infra" / "requirements" / "core.txt"
    lock.write_text(f"absent @ {(checkout / 'absent-1.0-py3-none-any.whl').as_uri()}\n")
    assert main([], checkout) == 1
    shown = capsys.readouterr().out
    assert "core environment: not installed: uv" in shown
    assert "absent-1.0-py3-none-any.whl" in shown
    assert not (checkout / ".venv" / STAMP).exists()


def test_concurrent_installations_create_one_environment(checkout: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from infra.core.command import main; "
        "sys.exit(main([], Path(sys.argv[1])))"
    )
    installers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(checkout)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    outputs = [installer.communicate(timeout=300)[0] for installer in installers]
    assert [installer.returncode for installer in installers] == [0, 0]
    assert sum("ready, reused" in output for output in outputs) == 1
