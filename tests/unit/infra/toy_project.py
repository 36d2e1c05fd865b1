"""A checkout so small that its environment installs in seconds without a network."""

import zipfile
from pathlib import Path

BACKEND = """
import zipfile

METADATA = "Metadata-Version: 2.1\\nName: toy\\nVersion: 1.0\\n"
WHEEL = "Wheel-Version: 1.0\\nGenerator: toy\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "toy-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.writestr("toy.py", "")
        wheel.writestr("toy-1.0.dist-info/METADATA", METADATA)
        wheel.writestr("toy-1.0.dist-info/WHEEL", WHEEL)
        wheel.writestr("toy-1.0.dist-info/RECORD", "")
    return name

build_wheel = build_editable
"""

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "toy"
version = "1.0"
"""


def make_toy_project(folder: Path) -> Path:
    """A repository whose locks name one package each."""
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND)
    requirements = folder / "infra" / "requirements"
    requirements.mkdir(parents=True)
    for lock, package in (("core", "used"), ("dev", "tested")):
        wheel = _wheel(folder, package)
        (requirements / f"{lock}.txt").write_text(f"{package} @ {wheel.as_uri()}\n")
    return folder


def _wheel(folder: Path, name: str) -> Path:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", metadata)
        wheel.writestr(
            f"{name}-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: toy\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path
