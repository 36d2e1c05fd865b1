"""The example of an extension as a wheel, and other extensions."""

import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.processes import REPOSITORY

SOURCE = REPOSITORY / "examples" / "extension"
METADATA = "Metadata-Version: 2.1\nName: temper-extension-example\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, version: str = "1.0") -> Path:
    """Write the wheel that its pyproject.toml describes; it can be installed, and imported from."""
    described = tomllib.loads((SOURCE / "pyproject.toml").read_text())
    points = described["project"]["entry-points"]
    modules = [f"{name}.py" for name in described["tool"]["setuptools"]["py-modules"]]
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    files = {
        **{name: (SOURCE / name).read_text() for name in modules},
        "METADATA": METADATA.format(version=version),
        "WHEEL": WHEEL,
        "entry_points.txt": "\n".join(lines),
        "RECORD": "",
    }
    wheel = folder / f"temper_extension_example-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            information = f"temper_extension_example-{version}.dist-info/{name}"
            inside = name if name.endswith(".py") else information
            archive.writestr(inside, text)
    return wheel


def write_package(
    folder: Path, name: str, text: str, points: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write a package of one module, with entry points by group and name, as pip leaves it in
    ``folder``, which it returns."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{name}.py").write_text(text)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{each} = {value}" for each, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder
