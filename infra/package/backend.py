"""The build backend of pyproject.toml: setuptools, on the layout of the installed package.

An editable installation and a source distribution have the layout of the repository.
"""

import os
from collections.abc import Mapping
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
)

from infra.package.layout import lay_out

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "prepare_metadata_for_build_editable",
]


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,  # noqa: ARG001  (there is no hook that prepares it)
) -> str:
    """Build the wheel into ``wheel_directory``; return its file name."""
    repository, wheels = Path.cwd(), os.path.abspath(wheel_directory)  # noqa: PTH100 - of a string
    with TemporaryDirectory(prefix="temper-package-") as folder:
        lay_out(repository, Path(folder))
        with chdir(folder):
            return str(build_meta.build_wheel(wheels, config_settings))
