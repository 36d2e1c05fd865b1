"""Real installs of tiny runtimes."""

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from services.core.process.runtimes import Accelerator, RuntimeMissing, find_runtime
from tests.support.waiting import wait_for
from tests.unit.runtimes.toys import Toys, make_wheel

TOML = """
summary = "a toy"
modules = ["core_toy"]
[cpu]
disk_gb = 0.01
download_mb = 1
"""
IMPORT_FAILS = TOML.replace("core_toy", "nowhere_to_be_found")


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    toys = Toys(tmp_path)
    make_wheel(toys.wheels, "core_toy", "1.0", requires="package-that-does-not-exist")
    toys.declare("toy", TOML, "core-toy==1.0\n")
    return toys


def interrupt(toys: Toys, number: signal.Signals) -> tuple[int, str]:
    """Signal an install while it works; return its exit code and output.

    Its last step, the import, blocks while the file ``unfinished`` exists.
    """
    unfinished = toys.folder / "unfinished"
    unfinished.touch()
    make_wheel(toys.wheels, "core_toy", "1.0", waits_for=unfinished)
    process = toys.start("toy")
    python = toys.home / "runtimes" / "toy" / "bin" / "python"
    wait_for(python.exists, "the environment is being made", 120)
    os.kill(process.pid, number)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def test_a_runtime_is_created_once_and_then_reused(toys: Toys) -> None:
    code, output = toys.install("toy")
    assert (code, "ready" in output, "reused" in output) == (0, True, False), output
    assert toys.run("toy", "import core_toy; print(core_toy.VERSION)") == "1.0"

    assert toys.install("toy") == (0, "runtime toy: ready, reused\n")

    runtime = find_runtime(toys.home / "runtimes", "toy")
    assert runtime.accelerator is Accelerator.CPU
    assert runtime.python.exists()


def test_a_cpu_only_runtime_is_reused_with_a_gpu(toys: Toys) -> None:
    code, output = toys.install("toy", "--accelerator", "cuda")
    assert code == 0, output

    assert toys.install("toy") == (0, "runtime toy: ready, reused\n")
    assert find_runtime(toys.home / "runtimes", "toy").accelerator is Accelerator.CPU


def test_a_runtime_is_installed_where_workers_look_for_it(toys: Toys, tmp_path: Path) -> None:
    toys.with_home = False
    toys.variables |= {"TEMPER_HOME": str(toys.home), "TEMPER_RUNTIMES": str(tmp_path / "named")}
    code, output = toys.install("toy")
    assert code == 0, output
    assert find_runtime(tmp_path / "named", "toy").python.exists()
    assert not toys.home.exists()

    toys.with_home = True  # the command line takes precedence
    code, output = toys.install("toy")
    assert code == 0, output
    assert find_runtime(toys.home / "runtimes", "toy").python.exists()


def test_a_changed_lock_rebuilds_the_runtime(toys: Toys) -> None:
    toys.install("toy")
    before = find_runtime(toys.home / "runtimes", "toy").version
    make_wheel(toys.wheels, "core_toy", "2.0")
    toys.declare("toy", TOML, "core-toy==2.0\n")

    code, output = toys.install("toy")

    assert (code, "reused" in output) == (0, False), output
    assert toys.run("toy", "import core_toy; print(core_toy.VERSION)") == "2.0"
    assert find_runtime(toys.home / "runtimes", "toy").version != before


def test_all_parts_of_a_declaration_are_installed(toys: Toys) -> None:
    for name in ("torch_toy", "late_toy"):
        make_wheel(toys.wheels, name, "1.0", requires="package-that-does-not-exist")
    toys.declare(
        "toy",
        TOML
        + """
        no_deps = ["late-toy==1.0"]
        metadata_only = ["named-toy==3.0+cpu"]
        libraries = { "libc.so.6" = "libc6" }
        [cpu.torch]
        requirement = "torch-toy==1.0"
        index = "http://127.0.0.1:9/never-asked"
        """,
        "core-toy==1.0\nother==1 ; sys_platform == 'win32'\n",
    )

    code, output = toys.install("toy")

    assert code == 0, output
    code_of = "import core_toy, torch_toy, late_toy; from importlib.metadata import version"
    assert toys.run("toy", f"{code_of}; print(version('named-toy'))") == "3.0+cpu"
    compiled = toys.home / "runtimes" / "toy" / "lib"
    assert list(compiled.rglob("core_toy.*.pyc"))


def test_a_failed_install_shows_the_cause_and_the_log(toys: Toys) -> None:
    toys.declare("toy", TOML, "missing-toy==1.0\n")

    code, output = toys.install("toy")

    assert code == 1
    assert "runtime toy: not installed: uv: No solution found" in output
    assert "you require missing-toy==1.0" in output
    log = toys.home / "runtimes" / "toy.log"
    assert f"--- end of {log}" in output
    assert "missing-toy" in log.read_text()


def test_a_runtime_whose_modules_fail_to_import_is_incomplete(toys: Toys) -> None:
    toys.declare("toy", IMPORT_FAILS, "core-toy==1.0\n")

    code, output = toys.install("toy")

    assert code == 1
    assert "No module named 'nowhere_to_be_found'" in output
    with pytest.raises(RuntimeMissing, match="incompletely installed"):
        find_runtime(toys.home / "runtimes", "toy")


def test_insufficient_disk_space_is_reported_before_installation(toys: Toys) -> None:
    toys.declare("toy", TOML.replace("0.01", "1_000_000.0"), "core-toy==1.0\n")

    code, output = toys.install("toy")

    assert code == 1
    assert "needs 1000000 GB of disk space" in output
    assert not (toys.home / "runtimes" / "toy").exists()


def test_a_missing_library_names_the_package_to_install(toys: Toys) -> None:
    toys.declare("toy", TOML + 'libraries = { "libtoy.so.9" = "libtoy9" }\n', "core-toy==1.0\n")
    toys.variables["PATH"] = "/nonexistent"

    code, output = toys.install("toy")

    assert code == 1
    assert "it needs the system's libtoy9" in output


def test_a_killed_install_is_repeated(toys: Toys) -> None:
    interrupt(toys, signal.SIGKILL)
    (toys.folder / "unfinished").unlink()

    code, output = toys.install("toy")

    assert (code, "reused" in output) == (0, False), output
    assert toys.run("toy", "import core_toy; print(core_toy.VERSION)") == "1.0"


def test_a_terminated_install_stops_its_children(toys: Toys) -> None:
    code, output = interrupt(toys, signal.SIGTERM)

    assert (code, "interrupted" in output) == (130, True), output
    with (toys.home / "runtimes" / "toy.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a surviving child would hold it


def test_concurrent_installs_create_one_runtime(toys: Toys) -> None:
    outputs = [
        process.communicate(timeout=300)[0] for process in (toys.start("toy"), toys.start("toy"))
    ]

    assert sorted("reused" in output for output in outputs) == [False, True], outputs
    assert all("ready" in output for output in outputs), outputs


def test_a_typo_in_a_declaration_is_named(toys: Toys) -> None:
    toys.declare("toy", TOML + "no_dep = []\n", "core-toy==1.0\n")

    code, output = toys.install("toy")

    assert code == 1
    assert "[cpu] unknown key 'no_dep'" in output


def test_an_unknown_runtime_error_lists_the_known_ones(toys: Toys) -> None:
    code, output = toys.install("toi")

    assert code == 2
    assert "'toy'" in output


def test_a_corrupt_stamp_counts_as_missing(toys: Toys) -> None:
    folder = toys.home / "runtimes" / "toy"
    folder.mkdir(parents=True)
    (folder / "runtime.json").write_text(json.dumps({"version": "1"})[:-3])

    code, output = toys.install("toy")

    assert (code, "reused" in output) == (0, False), output
