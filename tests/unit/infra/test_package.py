"""The layout of the installed package, from a small repository."""

import re
from pathlib import Path

import pytest

from infra.package.layout import client_rooms, lay_out
from services.contracts.version import VERSION
from tests.support.processes import REPOSITORY

FILES = {
    "temper/__init__.py": "from services.metrics import k\n",
    "temper/stack.py": 'MODULE = "services.api"\nOTHER = "services"\n',
    "services/__init__.py": "",
    "services/contracts/__init__.py": "",
    "services/contracts/kinds.py": 'KIND = "services.contracts.jobs:Job"\n',
    "services/contracts/data.json": "{}",
    "services/metrics/__init__.py": "import services.contracts.kinds as k\n",
    "services/api/__init__.py": "from services.contracts.kinds import KIND\n",
    "pyproject.toml": 'version = {attr = "services.contracts.version.VERSION"}\n',
    "README.md": "",
    "LICENSE": "",
    "MANIFEST.in": "",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "repository" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "repository"


def test_the_client_has_copies_of_its_rooms_and_the_services_are_unchanged(
    repository: Path, tmp_path: Path
) -> None:
    lay_out(repository, tmp_path / "package")

    laid = {
        path.relative_to(tmp_path / "package").as_posix(): path.read_text()
        for path in (tmp_path / "package").rglob("*")
        if path.is_file()
    }
    server = {
        f"temper/_server/{name}": text
        for name, text in FILES.items()
        if name.startswith("services/")
    }
    assert laid == {
        **{name: FILES[name] for name in ("README.md", "LICENSE", "MANIFEST.in")},
        **server,
        "temper/__init__.py": "from temper._services.metrics import k\n",
        "temper/stack.py": FILES["temper/stack.py"],
        "temper/_services/__init__.py": "",
        "temper/_services/contracts/__init__.py": "",
        "temper/_services/contracts/kinds.py": 'KIND = "temper._services.contracts.jobs:Job"\n',
        "temper/_services/contracts/data.json": "{}",
        "temper/_services/metrics/__init__.py": "import temper._services.contracts.kinds as k\n",
        "pyproject.toml": 'version = {attr = "temper._services.contracts.version.VERSION"}\n',
    }


@pytest.mark.parametrize("name", ["services", "services.contracts.kinds"])
def test_an_import_that_binds_the_name_is_refused(
    repository: Path, tmp_path: Path, name: str
) -> None:
    (repository / "temper" / "late.py").write_text(f"if True:\n    import {name}\n")

    with pytest.raises(ValueError, match=r"late\.py:2: write it as"):
        lay_out(repository, tmp_path / "package")


def test_the_page_names_the_rooms_that_the_client_has_copies_of() -> None:
    page = (REPOSITORY / "docs/architecture/package.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| folder `_services`"))

    assert re.findall(r"`services/(\w+)`", row) == client_rooms(REPOSITORY)


def test_the_changelog_has_a_section_for_the_version() -> None:
    sections = re.findall(r"^## (\S+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert sections[0] == ("Unreleased" if ".dev" in VERSION else VERSION)
