"""Compiling an environment to byte code, on all cores."""

from pathlib import Path

TESTS = "/tests?/"
"""Test folders, which nothing imports."""


def compile_command(python: Path, site_packages: Path) -> tuple[str, ...]:
    """The command; it fails if a package ships files for another Python version."""
    options = ("-q", "-j", "0", "-x", TESTS)
    return (str(python), "-m", "compileall", *options, str(site_packages))
