"""Stored responses to requests with an Idempotency-Key."""

import pytest

from services.api.idempotency import recall_answer, remember_answer
from services.contracts.errors import Conflict
from services.core.db.engine import Database


def test_an_idempotency_key_repeats_the_first_response_and_refuses_another_body(
    database: Database,
) -> None:
    with database.write() as session:
        assert recall_answer(session, "me", "key", "body") is None
        remember_answer(session, "me", "key", "body", {"id": "job-1"})

    with database.read() as session:
        assert recall_answer(session, "me", "key", "body") == {"id": "job-1"}
        assert recall_answer(session, "somebody else", "key", "body") is None
        with pytest.raises(Conflict):
            recall_answer(session, "me", "key", "another body")
