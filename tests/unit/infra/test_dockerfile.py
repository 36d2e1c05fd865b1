"""Properties that operators of the images rely on, read from the Dockerfile."""

import re
import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import grimp
import pytest

from services.evaluator.models import MERGING_RUNTIME
from services.jobs.tracking.selection import RUNTIME as TRACKING_RUNTIME
from services.rewards.chemistry.family import RUNTIME as GRADING_RUNTIME
from tests.support.processes import REPOSITORY

PACKAGES = {
    "api": "services.api",
    "campaigns": "services.campaigns",
    "sandbox": "services.sandbox",
    "retrieval": "services.retrieval",
    "trainer": "services.trainer",
    "evaluator": "services.evaluator",
    "cli": "temper",
}
"""The package that each image is for."""
SERVICES = sorted(PACKAGES.keys() - {"sandbox"})
EVERY_IMAGE = pytest.mark.parametrize("image", PACKAGES)


@cache
def _stages() -> dict[str, tuple[str, list[str]]]:
    """Of each stage, the one it is made on, and its instructions."""
    text = (REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    stages = re.split(r"^FROM (\S+) AS (\S+)\n", text, flags=re.MULTILINE)[1:]
    return {
        name: (base, [line for line in lines.splitlines() if line])
        for base, name, lines in zip(*[iter(stages)] * 3, strict=True)
    }


def _instructions(stage: str) -> list[str]:
    """All instructions that an image is made of, first those of the stages it is made on."""
    base, own = _stages()[stage]
    return [*(_instructions(base) if base in _stages() else []), *own]


@EVERY_IMAGE
def test_only_the_sandbox_image_runs_as_root(image: str) -> None:
    users = [line.split()[1] for line in _instructions(image) if line.startswith("USER ")]
    assert users == ([] if image == "sandbox" else ["10001:10001"])


@EVERY_IMAGE
def test_every_image_copies_exactly_what_its_service_imports(image: str) -> None:
    copied = {
        part
        for line in _instructions(image)
        if line.startswith("COPY ")
        for part in line.split()[1:-1]
        if part.startswith(("services/", "temper"))
    }
    imported = _import_closure(PACKAGES[image])

    covers = {part: {file for file in imported if _is_below(file, part)} for part in copied}
    assert imported - set().union(*covers.values()) == set(), "missing from the image"
    assert {part for part, files in covers.items() if not files} == set(), "copied for nothing"


@EVERY_IMAGE
def test_byte_code_of_everything_is_in_the_image(image: str) -> None:
    compiled = [line for line in _instructions(image) if "compileall" in line]
    assert "/usr/local/lib/python3.11" in compiled[0]
    code = compiled[-1].split("&&")[0].split()
    assert {"services", PACKAGES[image].split(".")[0]} == {"services", *code[-1:]}
    assert all("unchecked-hash" in line for line in compiled)  # whatever times a builder sets


@EVERY_IMAGE
def test_package_index_addresses_stay_out_of_the_image(image: str) -> None:
    assert not any("PIP_" in line for line in _instructions(image))


@pytest.mark.parametrize("image", SERVICES)
def test_services_share_the_layers_of_their_environment(image: str) -> None:
    shared = _instructions("service")
    assert _instructions(image)[: len(shared)] == shared


def test_trainer_and_evaluator_differ_in_their_code_alone() -> None:
    """Their runtimes, several gigabytes, are stored once."""
    assert _stages()["trainer"][0] == _stages()["evaluator"][0] == "worker"
    for image in ("trainer", "evaluator"):
        own = _stages()[image][1]
        assert not any("--from" in line or line.startswith("ARG") for line in own)


def test_the_images_of_workers_have_the_runtimes_of_their_children() -> None:
    wanted = {"training", "vllm", MERGING_RUNTIME, GRADING_RUNTIME, TRACKING_RUNTIME}
    assert _runtimes("worker") == wanted
    assert _runtimes("retrieval") == {"encoder", TRACKING_RUNTIME}


def _runtimes(stage: str) -> set[str]:
    """The runtimes of an image, each of the stage that installs it."""
    copied = [
        line.split()[1].removeprefix("--from=")
        for line in _instructions(stage)
        if re.match(r"COPY --from=\S+-runtime ", line)
    ]
    for each in copied:
        name = each.removesuffix("-runtime")
        assert any(f"install.py {name} " in line for line in _instructions(each))
    return {each.removesuffix("-runtime") for each in copied}


def test_the_sandbox_has_the_packages_that_it_imports_and_no_others() -> None:
    graph = grimp.build_graph("services", include_external_packages=True)
    outside = {name for name in graph.modules if graph.is_module_squashed(name)}
    modules = _closure(graph, "services.sandbox")
    # The guest runs in the interpreter of programs, whose packages are a runtime.
    in_guest = graph.find_descendants("services.sandbox.guest") | {"services.sandbox.guest"}
    imported = {
        each
        for name in modules - in_guest
        for each in graph.find_modules_directly_imported_by(name) & outside
    }
    distributions = packages_distributions()
    needed = {_normal(distributions[name][0]) for name in imported - set(sys.stdlib_module_names)}
    requirements = REPOSITORY / "infra" / "requirements"
    wanted = set((requirements / "sandbox.in").read_text().split()[2:])
    locked = _pins(requirements / "sandbox.txt")
    # uvicorn and httptools' protocol load these by name.
    assert needed - {"starlette", "pydantic-core"} == wanted - {"httptools"}
    assert needed <= locked.keys()
    core = _pins(requirements / "core.txt")
    assert {name: core.get(name) for name in locked} == locked
    assert "sandbox.txt" in " ".join(_instructions("sandbox-environment"))


def _pins(lock: Path) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9._-]+)(?:\[\S+\])?==(\S+)", lock.read_text(), re.MULTILINE)
    return {_normal(name): version for name, version in found}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_below(file: str, part: str) -> bool:
    return file == part or file.startswith(f"{part}/")


def _closure(graph: grimp.ImportGraph, package: str) -> set[str]:
    own = {name for name in graph.modules if name == package or name.startswith(f"{package}.")}
    return own.union(*(graph.find_upstream_modules(name) for name in own))


def _import_closure(package: str) -> set[str]:
    """The files of all modules that the package's modules import, directly or not."""
    graph = grimp.build_graph("services", "temper")
    modules = _closure(graph, package)
    parents = {name.rsplit(".", depth)[0] for name in modules for depth in range(1, 5)}
    return {_file_of(name) for name in modules | (parents & graph.modules)}


def _file_of(module: str) -> str:
    folder = REPOSITORY / module.replace(".", "/")
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return file.relative_to(REPOSITORY).as_posix()
