"""Responses of the gateway to database errors."""

import logging

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolExhausted

from services.contracts.errors import InvalidRequest, StorageFull, Unavailable
from services.core.web.errors import error_answer

logger = logging.getLogger(__name__)

FULL = ("database or disk is full", "No space left on device")
"""How SQLite and PostgreSQL say that their disk is full."""


def install_database_errors(app: FastAPI) -> None:
    """Map database errors to error responses."""
    app.add_exception_handler(DataError, _unstorable)
    app.add_exception_handler(OperationalError, _database_error)
    app.add_exception_handler(PoolExhausted, _database_error)


def _unstorable(_request: Request, error: Exception) -> JSONResponse:
    """The request has a value that the database cannot store, such as a NUL character."""
    logger.warning("refused by the database: %s", error)
    return error_answer(InvalidRequest("a value of the request cannot be stored"))


def _database_error(_request: Request, error: Exception) -> JSONResponse:
    logger.error("database: %s", error)
    if any(words in str(error) for words in FULL):
        return error_answer(StorageFull("the disk of the database is full"))
    message = "the database does not answer"
    return error_answer(Unavailable(message, code="database_unavailable"))
