"""Programs in each installed language behave as its users expect."""

import base64
from typing import Any

import pytest

from services.sandbox.languages.catalog import LANGUAGES
from tests.integration.sandbox.languages.programs import COMPILED, FILES, PROGRAMS, STDIN
from tests.support.sandbox import Sandbox

SECONDS = 120


@pytest.fixture
def works(missing: dict[str, str], language: str) -> None:
    """Skip languages that are not installed; installed ones must work."""
    if "is not installed" in missing.get(language, ""):
        pytest.skip(missing[language])
    assert language not in missing, missing[language]


def _run(sandbox: Sandbox, language: str, code: str) -> dict[str, Any]:
    files = {**FILES, **PROGRAMS[language].files}
    return sandbox.run(
        code,
        language,
        stdin=STDIN,
        files={name: base64.b64encode(text.encode()).decode() for name, text in files.items()},
        compile_timeout=SECONDS,
        run_timeout=SECONDS,
    )


def test_every_language_has_a_program() -> None:
    assert PROGRAMS.keys() == LANGUAGES.keys()


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_reads_its_input_and_files(sandbox: Sandbox, language: str) -> None:
    answer = _run(sandbox, language, PROGRAMS[language].code)
    assert answer["status"] == "Success", answer
    assert PROGRAMS[language].shown in answer["run_result"]["stdout"], answer
    compiled = answer["compile_result"]
    assert (compiled is not None) == (language in COMPILED)


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize("language", PROGRAMS)
def test_a_failing_program_reports_its_status(sandbox: Sandbox, language: str) -> None:
    answer = _run(sandbox, language, PROGRAMS[language].failing)
    assert answer["status"] == "Failed", answer
    assert answer["run_result"]["return_code"] == PROGRAMS[language].status, answer


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize("language", COMPILED)
def test_a_program_that_does_not_compile_is_not_run(sandbox: Sandbox, language: str) -> None:
    answer = _run(sandbox, language, PROGRAMS[language].broken)
    assert answer["status"] == "Failed", answer
    assert answer["run_result"] is None
    compiled = answer["compile_result"]
    assert compiled["return_code"] > 0
    assert PROGRAMS[language].reason in compiled["stdout"] + compiled["stderr"], answer


LARGE_CPP = """
#include <iostream>
char zeros[70 << 20] = {1};
int main() { std::cout << int(zeros[0]) << std::endl; }
"""


@pytest.mark.usefixtures("works")
@pytest.mark.parametrize("language", ["cpp"])
def test_a_compiled_program_beyond_the_file_limit_is_the_programs_failure(
    sandbox: Sandbox, language: str
) -> None:
    answer = sandbox.run(LARGE_CPP, language, compile_timeout=SECONDS)

    assert answer["status"] == "Failed", answer
    assert answer["run_result"] is None
    assert "the compiled program is too large: main" in answer["compile_result"]["stderr"]
