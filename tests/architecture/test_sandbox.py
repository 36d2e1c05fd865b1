"""What the sandbox's process and the interpreter of its programs may load."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
INSIDE = "services.sandbox.guest"
MODULES = sorted((REPOSITORY / "services" / "sandbox" / "guest").rglob("*.py"))
NOTEBOOK_PACKAGES = {"ipykernel", "IPython", "jupyter_client", "traitlets", "zmq", "tornado"}
NOTEBOOK_PACKAGES |= {"matplotlib", "matplotlib_inline", "numpy"}


def imported(path: Path) -> Iterator[str]:
    """The full names of the modules that a file imports when it is imported itself."""
    nodes: list[ast.AST] = [ast.parse(path.read_bytes())]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_guest_modules_import_only_the_standard_library_and_the_guest(path: Path) -> None:
    allowed = NOTEBOOK_PACKAGES if "notebook" in path.relative_to(REPOSITORY).as_posix() else set()

    foreign = {
        name
        for name in imported(path)
        if name.partition(".")[0] not in sys.stdlib_module_names | allowed
        and not f"{name}.".startswith(f"{INSIDE}.")
    }

    assert foreign == set()
