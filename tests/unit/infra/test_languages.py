"""Languages are installed from packages where possible; missing ones are named."""

import io
import os
from pathlib import Path

import pytest

from infra.debian import PackagesUnavailable
from infra.runtimes.installer.progress import Progress
from infra.testing import languages as module
from infra.testing.languages import has_languages, install_languages
from services.sandbox.execution import Executable
from services.sandbox.languages import catalog
from services.sandbox.languages.declaration import LanguageSpec


def _language(name: str, npm: tuple[str, ...] = ()) -> LanguageSpec:
    command = Executable((name,))
    return LanguageSpec(
        name=name, source="main", run=command, probe=command, debian=(f"{name}-package",), npm=npm
    )


class Machine:
    """A search path and programs that install to it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self.programs = folder / "programs"
        self.programs.mkdir()
        for name in ("env", "sh", "touch", "chmod"):
            (self.programs / name).symlink_to(f"/usr/bin/{name}")
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setattr(catalog, "SEARCH_PATH", str(self.programs))
        monkeypatch.setattr("os.geteuid", lambda: 0)
        monkeypatch.setattr(
            module, "LANGUAGES", {"one": _language("one"), "two": _language("two", npm=("two@2",))}
        )

    def add(self, name: str, script: str = "") -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def installs(self, *names: str) -> str:
        """A script that installs these programs."""
        return "; ".join(
            f"touch {self.programs / name}; chmod 755 {self.programs / name}" for name in names
        )

    def install(self) -> None:
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            install_languages(self._folder / "log", descriptor, Progress("test", io.StringIO()))
        finally:
            os.close(descriptor)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_packages_of_all_missing_languages_are_installed(machine: Machine) -> None:
    brought = machine.installs("one", "two")
    machine.add("apt-get", f'case "$*" in *one-package*two-package*) {brought};; esac')
    assert not has_languages()
    machine.install()
    assert has_languages()


def test_one_unavailable_package_does_not_block_the_rest(machine: Machine) -> None:
    machine.add(
        "apt-get",
        f'case "$*" in *two-package*) exit 100;; *one-package*) {machine.installs("one")};; esac',
    )
    with pytest.raises(PackagesUnavailable, match=r"^two: "):
        machine.install()
    assert (machine.programs / "one").exists()


def test_a_language_without_a_debian_package_is_installed_with_npm(machine: Machine) -> None:
    machine.add(
        "apt-get",
        f'case "$*" in *two-package*) exit 100;; *one-package*) {machine.installs("one")};; esac',
    )
    machine.add("npm", f'case "$*" in *--global*two@2) {machine.installs("two")};; esac')
    machine.install()
    assert has_languages()


def test_languages_still_missing_after_installation_are_reported(machine: Machine) -> None:
    machine.add("apt-get", machine.installs("one"))
    with pytest.raises(PackagesUnavailable, match=r"still missing: two$"):
        machine.install()
