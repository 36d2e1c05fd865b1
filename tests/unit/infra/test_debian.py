import os
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.debian import PackagesUnavailable, install_packages

AddProgram = Callable[[str, str], None]


@pytest.fixture
def add_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddProgram:
    """Put a shell script on a PATH that otherwise has only `env` and `sh`."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("env", "sh"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(programs))

    def add(name: str, script: str) -> None:
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)

    return add


def _install(tmp_path: Path) -> str:
    """Install a package and return the log."""
    log = tmp_path / "log"
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    try:
        install_packages(["toy"], log, descriptor)
    finally:
        os.close(descriptor)
    return log.read_text()


def test_without_apt_the_wanted_packages_are_named(tmp_path: Path, add_program: AddProgram) -> None:
    with pytest.raises(PackagesUnavailable, match="no apt-get to install toy"):
        _install(tmp_path)


def test_root_installs_with_apt(
    tmp_path: Path, add_program: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    add_program("apt-get", 'echo "apt-get $DEBIAN_FRONTEND $@"')
    log = _install(tmp_path)
    assert "apt-get noninteractive" in log
    assert log.endswith("install --yes --no-install-recommends toy\n")


def test_passwordless_sudo_is_used(
    tmp_path: Path, add_program: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    add_program("apt-get", 'echo "$@"')
    add_program("sudo", 'shift; [ "$1" = true ] || { echo as root; "$@"; }')
    assert "as root" in _install(tmp_path)


def test_without_root_the_command_to_run_is_shown(
    tmp_path: Path, add_program: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    add_program("apt-get", "exit 100")
    add_program("sudo", "exit 1")
    with pytest.raises(PackagesUnavailable, match="needs root: sudo apt-get install toy"):
        _install(tmp_path)


def test_a_failed_update_does_not_prevent_an_installation(
    tmp_path: Path, add_program: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    add_program("apt-get", 'case "$*" in *update) exit 100;; esac; echo installed')
    assert _install(tmp_path) == "installed\n"


def test_a_failed_installation_names_the_log(
    tmp_path: Path, add_program: AddProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    add_program("apt-get", "exit 100")
    with pytest.raises(PackagesUnavailable, match=r"code 100; see .*log"):
        _install(tmp_path)
