"""The example of an extension as a wheel."""

import tomllib
import zipfile
from pathlib import Path

from tests.support.processes import REPOSITORY

SOURCE = REPOSITORY / "examples" / "extension"
METADATA = "Metadata-Version: 2.1\nName: temper-extension-example\nVersion: {version}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, version: str = "1.0") -> Path:
    """Write the wheel that its pyproject.toml describes; it can be installed, and imported from."""
    points = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        line
        for group, entries in points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    files = {
        "extension_example.py": (SOURCE / "extension_example.py").read_text(),
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
