"""Where the folders of the repository go in the installed package.

Installed, nothing may be named ``services``: an application that uses the client often has a
package of this name itself. So `temper` holds all code, in two parts:

``temper/_services``  the rooms that the client imports, with their imports renamed;
``temper/_server``    all services, unchanged, on the path of the services' processes alone.
"""

import ast
import re
import shutil
from pathlib import Path

CLIENT_PACKAGE = "temper._services"
_IMPORT = re.compile(r"^(\s*)(from|import(?=.* as )) services(?=\.)", re.MULTILINE)
_ROOM = re.compile(r"^\s*(?:from|import) services\.(\w+)", re.MULTILINE)
_BESIDE = ("README.md", "LICENSE", "MANIFEST.in")
_IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


def lay_out(repository: Path, target: Path) -> None:
    """Write the source of the package into the empty folder ``target``.

    Raises ValueError for an import of ``services`` that cannot be renamed.
    """
    package = target / "temper"
    inside = package.joinpath(*CLIENT_PACKAGE.split(".")[1:])
    _copy(repository / "temper", package)
    rooms = client_rooms(repository)
    for room in rooms:
        _copy(repository / "services" / room, inside / room)
    (inside / "__init__.py").write_bytes((repository / "services" / "__init__.py").read_bytes())
    # A module that is loaded by its name; the names of others are those of processes of services.
    named = re.compile(rf"""(?<=["'])services(?=\.(?:{"|".join(rooms)})\.)""")
    for path in sorted(package.rglob("*.py")):
        _rename(path, named)
    _copy(repository / "services", package / "_server" / "services")
    for name in _BESIDE:
        shutil.copyfile(repository / name, target / name)
    settings = (repository / "pyproject.toml").read_text(encoding="utf-8")
    (target / "pyproject.toml").write_text(named.sub(CLIENT_PACKAGE, settings), encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=_IGNORED)


def client_rooms(repository: Path) -> list[str]:
    """Return the rooms of the services that the client imports, directly or through another one.

    import-linter keeps them few.
    """
    rooms: set[str] = set()
    waiting = [repository / "temper"]
    while waiting:
        for path in waiting.pop().rglob("*.py"):
            found = set(_ROOM.findall(path.read_text(encoding="utf-8"))) - rooms
            rooms |= found
            waiting += [repository / "services" / room for room in found]
    return sorted(rooms)


def _rename(path: Path, named: re.Pattern[str]) -> None:
    text = _IMPORT.sub(rf"\1\2 {CLIENT_PACKAGE}", path.read_text(encoding="utf-8"))
    text = named.sub(CLIENT_PACKAGE, text)
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
