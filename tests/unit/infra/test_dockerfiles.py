"""Properties that operators of the images rely on, read from the Dockerfiles."""

import re
from pathlib import Path

import grimp
import pytest

from services.evaluator.models import MERGING_RUNTIME

SERVICES = Path(__file__).resolve().parents[3] / "services"
DOCKERFILES = sorted(SERVICES.glob("*/Dockerfile"))


def _final_stage(path: Path) -> list[str]:
    text = path.read_text().replace("\\\n", " ")
    return re.split(r"^FROM ", text, flags=re.MULTILINE)[-1].splitlines()


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_only_the_sandbox_image_runs_as_root(path: Path) -> None:
    users = [line.split()[1] for line in _final_stage(path) if line.startswith("USER ")]
    assert users == ([] if path.parent.name == "sandbox" else ["10001:10001"])


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_every_image_copies_exactly_what_its_service_imports(path: Path) -> None:
    copied = {
        part
        for line in _final_stage(path)
        if line.startswith("COPY ")
        for part in line.split()[1:-1]
        if part.startswith("services/")
    }
    imported = _import_closure(f"services.{path.parent.name}")

    covers = {part: {file for file in imported if _is_below(file, part)} for part in copied}
    assert imported - set().union(*covers.values()) == set(), "missing from the image"
    assert {part for part, files in covers.items() if not files} == set(), "copied for nothing"


def _is_below(file: str, part: str) -> bool:
    return file == part or file.startswith(f"{part}/")


def _import_closure(package: str) -> set[str]:
    """The files of all modules that the package's modules import, directly or not."""
    graph = grimp.build_graph("services")
    own = {name for name in graph.modules if name == package or name.startswith(f"{package}.")}
    modules = own.union(*(graph.find_upstream_modules(name) for name in own))
    parents = {name.rsplit(".", depth)[0] for name in modules for depth in range(1, 5)}
    return {_file_of(name) for name in modules | (parents & graph.modules)}


def _file_of(module: str) -> str:
    folder = SERVICES.parent / module.replace(".", "/")
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return file.relative_to(SERVICES.parent).as_posix()


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_package_index_addresses_stay_out_of_the_image(path: Path) -> None:
    assert not any("PIP_" in line for line in _final_stage(path))


@pytest.mark.parametrize("worker", ["trainer", "evaluator", "retrieval"])
def test_the_images_of_workers_have_the_runtime_of_the_trackers(worker: str) -> None:
    text = (SERVICES / worker / "Dockerfile").read_text()
    assert "COPY infra/runtimes/tracking tracking\n" in text
    assert re.search(r"install\.py [a-z ]*\btracking\b", text)


def test_the_image_of_the_evaluator_can_merge_adapters() -> None:
    text = (SERVICES / "evaluator" / "Dockerfile").read_text()
    assert f"COPY infra/runtimes/{MERGING_RUNTIME} {MERGING_RUNTIME}\n" in text
    assert re.search(rf"install\.py [a-z ]*\b{MERGING_RUNTIME}\b", text)
