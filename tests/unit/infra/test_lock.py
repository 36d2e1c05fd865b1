import re
import tomllib
from pathlib import Path

import pytest

from infra.lock import ENGINE, SHARED, compile_command, lock_of, main, shared_pins, sources

SOURCES = sources()


def _direct(source: Path) -> set[str]:
    """The requirements of a source: of the project all that it declares."""
    if source.suffix != ".toml":
        return _names(source)
    project = tomllib.loads(source.read_text())["project"]
    lists = (project["dependencies"], *project["optional-dependencies"].values())
    names = {re.split(r"[^A-Za-z0-9._-]", each)[0] for group in lists for each in group}
    return names - {project["name"]}


def _names(path: Path) -> set[str]:
    lines = path.read_text().splitlines()
    found = (re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", line) for line in lines)
    return {re.sub(r"[-_.]+", "-", match[0]).lower() for match in found if match}


@pytest.mark.parametrize("name", SOURCES)
def test_every_direct_requirement_is_locked(name: str) -> None:
    source = SOURCES[name]
    separate = {"torch"} if name.endswith("/cpu") else set()
    assert _direct(source) - separate <= _names(lock_of(name, source))


@pytest.mark.parametrize("name", SOURCES)
def test_every_locked_package_has_one_exact_version(name: str) -> None:
    lines = lock_of(name, SOURCES[name]).read_text().splitlines()
    requirements = [line for line in lines if re.match(r"[A-Za-z0-9]", line)]
    assert requirements
    assert [line for line in requirements if "==" not in line.split(";")[0]] == []


@pytest.mark.parametrize("name", [name for name in SOURCES if name.endswith("/cpu")])
def test_a_cpu_lock_has_no_cuda_packages(name: str) -> None:
    locked = _names(SOURCES[name].with_suffix(".txt"))
    bindings = {"nvidia-ml-py"}  # Python alone: it finds the driver when it is there
    cuda = {package for package in locked - bindings if package.startswith(("nvidia", "cuda"))}
    assert cuda == set()
    assert locked.isdisjoint({"torch", "triton"})


@pytest.mark.parametrize("name", SOURCES)
def test_every_lock_has_the_transformers_and_tokenizers_of_the_engine(name: str) -> None:
    lines = lock_of(name, SOURCES[name]).read_text().splitlines()

    found = {line for line in lines if line.partition("==")[0] in SHARED}

    assert found <= set(shared_pins())


def test_a_lock_is_compiled_with_the_pins_of_the_engine() -> None:
    pins = {f"--upgrade-package={pin}" for pin in shared_pins()}

    assert len(pins) == len(SHARED)
    assert pins <= set(compile_command("training/cpu", SOURCES["training/cpu"], upgrade=True))
    assert pins.isdisjoint(compile_command(ENGINE, SOURCES[ENGINE], upgrade=True))
    assert next(iter(SOURCES)) == ENGINE


def test_pins_are_kept_unless_an_upgrade_is_requested() -> None:
    source = SOURCES["core"]
    assert "--upgrade" not in compile_command("core", source, upgrade=False)
    assert "--upgrade" in compile_command("core", source, upgrade=True)


def test_an_unknown_lock_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cores"])
    assert "no such lock: cores" in capsys.readouterr().err


def test_only_locks_with_gpu_variants_use_the_cpu_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)

    asked = {
        name
        for name, source in SOURCES.items()
        if any("download.pytorch.org" in o for o in compile_command(name, source, upgrade=False))
    }

    assert asked == {"encoder/cpu", "training/cpu", "vllm/cpu"}
