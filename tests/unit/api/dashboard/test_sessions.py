"""Cookies of browser sessions."""

from pathlib import Path

import pytest
from fastapi import Request, Response

from services.api.dashboard.sessions import COOKIE, BrowserSessions

KEY_HASH = "0" * 64


def with_cookie(value: str) -> Request:
    header = f"{COOKIE}={value}".encode("latin-1")
    return Request({"type": "http", "method": "GET", "headers": [(b"cookie", header)]})


@pytest.fixture
def sessions(tmp_path: Path) -> BrowserSessions:
    return BrowserSessions(tmp_path, [KEY_HASH])


def signed(sessions: BrowserSessions) -> str:
    response = Response()
    sessions.sign_in(response, KEY_HASH, is_https=False)
    return response.headers["set-cookie"].partition("=")[2].partition(";")[0]


def test_a_signed_cookie_stands_for_its_key(sessions: BrowserSessions) -> None:
    assert sessions.principal(with_cookie(signed(sessions))) == KEY_HASH


@pytest.mark.parametrize("forged", ["", "a", "\xe9", "\xff" * 64])
def test_any_other_signature_stands_for_none(sessions: BrowserSessions, forged: str) -> None:
    unsigned = signed(sessions).rpartition(".")[0]

    assert sessions.principal(with_cookie(f"{unsigned}.{forged}")) is None
