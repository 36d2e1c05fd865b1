"""What somebody who runs the images relies on, read from their Dockerfiles."""

import re
from pathlib import Path

import pytest

SERVICES = Path(__file__).resolve().parents[3] / "services"
DOCKERFILES = sorted(SERVICES.glob("*/Dockerfile"))


def _final_stage(path: Path) -> list[str]:
    text = path.read_text().replace("\\\n", " ")
    return re.split(r"^FROM ", text, flags=re.MULTILINE)[-1].splitlines()


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_only_the_process_that_becomes_other_users_is_root(path: Path) -> None:
    users = [line.split()[1] for line in _final_stage(path) if line.startswith("USER ")]
    assert users == ([] if path.parent.name == "sandbox" else ["10001:10001"])


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_the_image_says_how_its_health_is_checked(path: Path) -> None:
    assert any(line.startswith("HEALTHCHECK ") for line in _final_stage(path))


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_the_image_holds_its_own_service_and_what_all_share(path: Path) -> None:
    copied = {
        part
        for line in _final_stage(path)
        if line.startswith("COPY ")
        for part in line.split()[1:-1]
        if part.startswith("services/")
    }
    assert copied == {"services/__init__.py", "services/common", f"services/{path.parent.name}"}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_addresses_of_package_indexes_stay_out_of_the_image(path: Path) -> None:
    assert not any("PIP_" in line for line in _final_stage(path))
