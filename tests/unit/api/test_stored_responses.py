"""Stored responses to requests with an Idempotency-Key."""

import pytest

from services.api.idempotency import find_response, store_response
from services.contracts.errors import Conflict
from services.core.db.engine import Database


def test_an_idempotency_key_repeats_the_first_response_and_rejects_another_body(
    database: Database,
) -> None:
    with database.write() as session:
        assert find_response(session, "me", "key", "body") is None
        store_response(session, "me", "key", "body", {"id": "job-1"})

    with database.read() as session:
        assert find_response(session, "me", "key", "body") == {"id": "job-1"}
        assert find_response(session, "somebody else", "key", "body") is None
        with pytest.raises(Conflict):
            find_response(session, "me", "key", "another body")
