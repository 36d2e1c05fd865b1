"""Compiling an environment to byte code, on all cores."""

from pathlib import Path

TESTS = "/tests?/"
"""Folders of packages that nothing imports."""


def compile_command(python: Path, site_packages: Path) -> tuple[str, ...]:
    """The command; it fails where a package ships files of another Python's syntax."""
    options = ("-q", "-j", "0", "-x", TESTS)
    return (str(python), "-m", "compileall", *options, str(site_packages))
