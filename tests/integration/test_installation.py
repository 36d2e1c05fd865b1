"""The package in an environment of its own, and the gateway from the code that it installs."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.runtimes.installer.uv import pip_configuration
from services.contracts.version import VERSION
from tests.support.extension import write_wheel
from tests.support.processes import REPOSITORY, free_port, is_ready, running
from tests.support.waiting import wait_for

pytestmark = pytest.mark.drill

EXTRAS = {"fsspec", "huggingface_hub", "pyarrow"}
OTHERS = {"tokenizers", "torch", "transformers", "numpy"}
"""Imported by the models of demos, in a runtime, and by measures that only services compute."""
IMPORT_ALL = """
import importlib, pkgutil, temper
for found in pkgutil.walk_packages(temper.__path__, "temper."):
    if not found.name.startswith("temper._server") and not found.name.endswith("__main__"):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            print(error.name)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the built package and what it declares."""
    folder = tmp_path_factory.mktemp("installed")
    uv = Path(sys.executable).with_name("uv")
    options, variables = pip_configuration(Path(sys.executable))
    where = [*options, "--no-config", "--index-strategy=unsafe-best-match", "--quiet"]

    def run(*arguments: str | Path) -> None:
        done = subprocess.run(
            [str(each) for each in (uv, *arguments)],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    run("build", "--wheel", "--out-dir", folder, *where, REPOSITORY)
    run("venv", "--quiet", "--no-config", "--python", sys.executable, folder / "venv")
    pins = REPOSITORY / "infra" / "requirements" / "core.txt"
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    run("pip", "install", "--python", python, "--constraint", pins, *where, wheel)
    return folder / "venv"


@pytest.fixture(scope="module")
def packages(environment: Path) -> Path:
    (found,) = environment.glob("lib/*/site-packages")
    return found


@pytest.fixture(scope="module")
def gateway(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The gateway of the installed code, in the environment of the tests, which has the extra."""
    home = tmp_path_factory.mktemp("home")
    port = free_port()
    code = {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(packages / "temper" / "_server")}
    variables = {"TEMPER_HOME": str(home), **code}
    with running("services.api", ["--port", str(port)], variables, home / "api.log") as process:
        wait_for(lambda: is_ready(process, f"http://127.0.0.1:{port}"), "the gateway is ready")
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a package named ``services`` of its own."""
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").write_text("OWN = True\n")
    return tmp_path


def run(program: Path, *arguments: str, folder: Path, **variables: str) -> tuple[int, str]:
    """The exit code of a program in ``folder``, and all that it printed."""
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env={"HOME": str(folder), "PATH": os.environ["PATH"], **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout


def test_nothing_else_is_importable_by_name(packages: Path) -> None:
    assert not (packages / "services").exists()
    assert not (packages / "infra").exists()


def test_the_command_starts(environment: Path, folder: Path) -> None:
    command = environment / "bin" / "temper"

    assert run(command, "--version", folder=folder) == (0, f"temper {VERSION}\n")
    code, text = run(command, "submit", "--help", folder=folder)
    assert code == 0
    assert "Usage: temper submit" in text


def test_every_module_finds_what_the_package_declares(environment: Path, folder: Path) -> None:
    code, missing = run(environment / "bin" / "python", "-c", IMPORT_ALL, folder=folder)

    assert code == 0, missing
    assert set(missing.split()) <= EXTRAS | OTHERS


def test_the_command_line_and_the_client_reach_a_gateway(
    environment: Path, folder: Path, gateway: str
) -> None:
    command = environment / "bin" / "temper"
    code, text = run(command, "ps", "--json", folder=folder, TEMPER_API_URL=gateway)
    assert code == 0, text
    assert '"data": []' in text

    program = (
        "import services\n"
        "from temper import Temper\n"
        "from temper.types import JobKind\n"
        f"with Temper({gateway!r}) as client:\n"
        "    print(services.OWN, len(client.jobs.page(kind=JobKind.CHECK).data))\n"
    )
    python = environment / "bin" / "python"
    assert run(python, "-c", program, folder=folder) == (0, "True 0\n")


def test_an_extension_is_installed_beside_it(
    environment: Path, packages: Path, folder: Path, tmp_path: Path
) -> None:
    uv = Path(sys.executable).with_name("uv")
    python = str(environment / "bin" / "python")
    arguments = ("--quiet", "--no-config", "--no-index", "--no-deps", str(write_wheel(tmp_path)))
    code, text = run(uv, "pip", "install", "--python", python, *arguments, folder=folder)
    assert code == 0, text

    program = (
        "from services.contracts.rewards.rewards import ExtensionReward\n"
        "from services.rewards.families import family_and_settings\n"
        "reward = ExtensionReward(name='brevity', settings={'most': 10})\n"
        "print(*family_and_settings(reward, 'reward'))\n"
    )
    # The packages of the services are those of the tests.
    path = os.pathsep.join(map(str, (packages / "temper" / "_server", packages)))
    code, text = run(Path(sys.executable), "-P", "-c", program, folder=folder, PYTHONPATH=path)
    assert (code, "BrevityFamily" in text, "most=10" in text) == (0, True, True), text


def test_commands_that_need_an_extra_name_it(environment: Path, folder: Path) -> None:
    command = environment / "bin" / "temper"

    code, text = run(command, "serve", "api", folder=folder)
    assert (code, "pip install 'temper[server]'" in text) == (1, True)
    code, text = run(command, "datasets", "add", "deepscaler", folder=folder)
    assert (code, "pip install 'temper[data]'" in text) == (1, True), text
    code, text = run(command, "demo", "addition", folder=folder)
    assert (code, "examples/ of Temper's repository" in text) == (1, True)
