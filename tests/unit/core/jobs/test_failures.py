"""What a failed job tells its user."""

import pytest

from services.contracts.failures import FailureCode, hint_of


@pytest.mark.parametrize("code", FailureCode)
def test_every_shared_cause_has_a_hint_of_one_line(code: FailureCode) -> None:
    hint = hint_of(code.value)

    assert hint
    assert "\n" not in hint


def test_a_cause_of_one_kind_of_job_has_no_hint() -> None:
    assert hint_of("engine_out_of_sync") is None
