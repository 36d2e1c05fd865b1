"""Where the folders of the repository go in the installed package.

Installed, nothing may be named ``services``: an application that uses the client often has a
package of this name itself. So `temper` holds all code, in two parts:

``temper/_services``  the rooms that the client imports, with the imports of them renamed;
``temper/_server``    all services, unchanged, on the path of the services' processes alone.
"""

import ast
import re
import shutil
from pathlib import Path

CLIENT_ROOMS = ("contracts", "metrics")
"""What ``temper`` imports of ``services``; import-linter keeps it to these."""
CLIENT_PACKAGE = "temper._services"
_IMPORT = re.compile(r"^(\s*)(from|import(?=.* as )) services(?=\.)", re.MULTILINE)
_NAME = re.compile(rf"""(?<=["'])services(?=\.(?:{"|".join(CLIENT_ROOMS)})\.)""")
"""A module that is imported by its name; the names of others belong to processes of services."""
_BESIDE = ("README.md", "LICENSE", "MANIFEST.in")
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


def lay_out(repository: Path, target: Path) -> None:
    """Write the source of the package into the empty folder ``target``.

    Raises ValueError for an import of ``services`` that cannot be renamed.
    """
    package = target / "temper"
    inside = package.joinpath(*CLIENT_PACKAGE.split(".")[1:])
    _copy(repository / "temper", package)
    for room in CLIENT_ROOMS:
        _copy(repository / "services" / room, inside / room)
    (inside / "__init__.py").write_bytes((repository / "services" / "__init__.py").read_bytes())
    for path in sorted(package.rglob("*.py")):
        _rename(path)
    _copy(repository / "services", package / "_server" / "services")
    for name in _BESIDE:
        shutil.copyfile(repository / name, target / name)
    settings = (repository / "pyproject.toml").read_text(encoding="utf-8")
    (target / "pyproject.toml").write_text(_NAME.sub(CLIENT_PACKAGE, settings), encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=_IGNORED)


def _rename(path: Path) -> None:
    text = _IMPORT.sub(rf"\1\2 {CLIENT_PACKAGE}", path.read_text(encoding="utf-8"))
    text = _NAME.sub(CLIENT_PACKAGE, text)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                modules = [each.name for each in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                continue
        if any(module.partition(".")[0] == "services" for module in modules):
            raise ValueError(f"{path}:{node.lineno}: write it as 'from services.ROOM import NAME'")
    path.write_text(text, encoding="utf-8")
