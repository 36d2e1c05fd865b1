"""Languages made of shell scripts, with their own search path."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from services.sandbox.execution import Executable
from services.sandbox.languages import catalog
from services.sandbox.languages.declaration import LanguageSpec

AddProgram = Callable[..., Path]


def toy(**fields: Any) -> LanguageSpec:
    """A language whose compiler is ``toyc`` and whose programs ``toy`` runs."""
    declared = {
        "name": "toy",
        "source": "main.toy",
        "compile": ("toyc", "-o", "main.bin", "main.toy"),
        "artifacts": ("main.bin",),
        "run": Executable(("toy", "main.bin")),
        "probe": Executable(("toy", "--version")),
        "debian": ("toy-lang",),
    }
    return LanguageSpec(**{**declared, **fields})


@pytest.fixture
def add_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddProgram:
    """Put a shell script on the only search path."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setattr(catalog, "SEARCH_PATH", str(programs))

    def add(name: str, script: str = "") -> Path:
        program = programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    return add
