"""Idempotent creation: a retry with the same Idempotency-Key gets the first response."""

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from pydantic import BaseModel
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from services.api.context import Gateway, GatewayContext, IdempotencyKey
from services.contracts.errors import Conflict, InvalidRequest
from services.core.db.tables import IdempotencyRow
from services.core.web.auth import Principal

Created = TypeVar("Created", bound=BaseModel)

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class NoBody(BaseModel):
    """The body of an action that takes none."""


@dataclass(frozen=True)
class Creator:
    """Runs a creation in one transaction with the record of its Idempotency-Key."""

    gateway: GatewayContext
    principal: str
    key: str | None

    def create(
        self, route: str, body: BaseModel, kind: type[Created], make: Callable[[Session], Created]
    ) -> Created:
        """Return the result of ``make``, or the first response when the request is a retry.

        Raises `Conflict` when the key was used with another body.
        """
        fingerprint = hashlib.sha256(f"{route}\n{_storable_json(body)}".encode()).hexdigest()
        try:
            created = self._create(fingerprint, kind, make)
        except IntegrityError:
            # A concurrent request took the key or the name; its row is visible now.
            created = self._create(fingerprint, kind, make)
        self.gateway.dispatcher.nudge()
        return created

    def _create(
        self, fingerprint: str, kind: type[Created], make: Callable[[Session], Created]
    ) -> Created:
        with self.gateway.database.write() as session:
            if self.key is None:
                return make(session)
            stored = find_response(session, self.principal, self.key, fingerprint)
            if stored is not None:
                return kind.model_validate(stored)
            created = make(session)
            body = created.model_dump(mode="json")
            store_response(session, self.principal, self.key, fingerprint, body)
            return created


def find_response(
    session: Session, principal: str, key: str, fingerprint: str
) -> dict[str, Any] | None:
    """Return the first response to this request, or None when it is new.

    Raises `Conflict` when the key was used with another body.
    """
    row = session.get(IdempotencyRow, (principal, key))
    if row is None:
        return None
    if row.fingerprint != fingerprint:
        raise Conflict(
            "this Idempotency-Key was used with another request",
            param="Idempotency-Key",
            code="idempotency_key_reused",
        )
    return row.response


def store_response(
    session: Session, principal: str, key: str, fingerprint: str, response: dict[str, Any]
) -> None:
    """Store a response in the transaction that created what it describes."""
    session.add(
        IdempotencyRow(
            principal=principal,
            key=key,
            fingerprint=fingerprint,
            response=response,
            created_at=time.time(),
        )
    )
    session.flush()


def _storable_json(body: BaseModel) -> str:
    """The body as JSON; raises `InvalidRequest` for what some databases cannot store."""
    try:
        text = body.model_dump_json()  # rejects lone surrogates and excessive nesting
        json.dumps(body.model_dump(), allow_nan=False, default=str)  # pydantic makes NaN null
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"the request cannot be stored: {error}") from error
    if _NUL.search(text):
        raise InvalidRequest("the request cannot be stored: it contains a NUL character")
    return text


async def _creator(gateway: Gateway, principal: Principal, key: IdempotencyKey = None) -> Creator:
    return Creator(gateway, principal, key)


Creation = Annotated[Creator, Depends(_creator)]
