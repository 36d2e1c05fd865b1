"""All languages of the contract are declared completely."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from services.sandbox.execution import Executable
from services.sandbox.languages import catalog
from services.sandbox.languages.catalog import LANGUAGES
from services.sandbox.languages.declaration import LanguageSpec

DOCKERFILE = Path(catalog.__file__).parents[3] / "Dockerfile"
ALL = pytest.mark.parametrize("language", LANGUAGES.values(), ids=lambda language: language.name)


@ALL
def test_every_other_language_says_how_to_install_it(language: LanguageSpec) -> None:
    assert language.name in ("python", "pytest") or bool(language.debian) != bool(
        language.elsewhere
    )


@ALL
def test_compiled_languages_declare_artifacts(language: LanguageSpec) -> None:
    assert bool(language.compile) == bool(language.artifacts)
    assert language.source not in language.artifacts


@ALL
def test_commands_are_argument_lists(language: LanguageSpec) -> None:
    words = [*language.compile]
    if isinstance(language.run, Executable):
        words += language.run.arguments
    assert all(isinstance(word, str) and word for word in words)
    assert not any(re.search(r"&&|\$\(", word) for word in words)


def test_the_catalog_imports_only_the_standard_library() -> None:
    read = "import services.sandbox.languages.catalog as c; print(len(c.LANGUAGES))"
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, '.'); {read}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.stdout, run.stderr) == (f"{len(LANGUAGES)}\n", "")


def test_the_image_installs_the_promised_languages() -> None:
    promised = "bash cpp nodejs typescript go java rust php perl ruby lua R sql"
    installed = DOCKERFILE.read_text().replace("\\\n", " ").split()
    for name in promised.split():
        missing = set(LANGUAGES[name].debian) - set(installed)
        assert not missing, name
