"""The declared runtimes themselves."""

import re
from pathlib import Path

import pytest

from infra.runtimes.installer.declaration import declared, read_declaration
from tests.support.processes import REPOSITORY

DECLARATIONS = REPOSITORY / "infra" / "runtimes"
NAMES = declared(DECLARATIONS)
WITH_CUDA = [name for name in NAMES if (DECLARATIONS / name / "cuda.in").exists()]
CUDA_ONLY = re.compile(r"nvidia(?!-ml-py)|cuda|triton|cupy|flashinfer|bitsandbytes|^torch\b")


def requirements(lock: Path) -> list[str]:
    return [line for line in lock.read_text().splitlines() if re.match(r"[A-Za-z0-9]", line)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("accelerator", ["cpu", "cuda"])
def test_a_lock_pins_every_package(name: str, accelerator: str) -> None:
    lock = read_declaration(DECLARATIONS / name, accelerator).lock

    unpinned = [line for line in requirements(lock) if not re.match(r"\S+==\S+", line)]

    assert unpinned == []
    assert len(requirements(lock)) >= len(requirements(lock.with_suffix(".in")))


@pytest.mark.parametrize("name", NAMES)
def test_a_cpu_lock_has_no_cuda_packages(name: str) -> None:
    declaration = read_declaration(DECLARATIONS / name, "cpu")

    assert [line for line in requirements(declaration.lock) if CUDA_ONLY.search(line)] == []
    if declaration.torch is not None:
        assert declaration.torch.requirement.endswith("+cpu")


@pytest.mark.parametrize("name", WITH_CUDA)
def test_cpu_and_cuda_use_the_same_torch_version(name: str) -> None:
    cpu = read_declaration(DECLARATIONS / name, "cpu")
    cuda = read_declaration(DECLARATIONS / name, "cuda")

    assert cpu.torch is not None
    wanted = cpu.torch.requirement.removesuffix("+cpu")
    assert [line for line in requirements(cuda.lock) if line.startswith("torch==")] == [wanted]
    assert cpu.version != cuda.version


def test_the_sandbox_has_the_packages_that_rollouts_and_data_scripts_use() -> None:
    declaration = read_declaration(DECLARATIONS / "sandbox", "cpu")

    locked = {line.partition("==")[0] for line in requirements(declaration.lock)}

    scientific = {"numpy", "scipy", "pandas", "sympy", "scikit-learn", "networkx", "matplotlib"}
    assert scientific | {"pytest", "ipykernel", "jupyter-client", "openai"} <= locked


def test_a_cpu_only_declaration_is_the_same_with_a_gpu() -> None:
    folder = DECLARATIONS / "sandbox"

    assert read_declaration(folder, "cuda") == read_declaration(folder, "cpu")
