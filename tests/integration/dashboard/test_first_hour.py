"""A newcomer's path in the browser: from an empty stack to a model compared with its base."""

from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.dashboard.newcomer import Newcomer, new_gateway

pytestmark = pytest.mark.drill


def test_from_nothing_to_a_model_of_ones_own(
    page: Page, tmp_path: Path, expected_errors: list[str]
) -> None:
    expected_errors.append("503 (Service Unavailable)")  # while engines start
    with new_gateway(tmp_path) as gateway:
        Newcomer(page, gateway).walk()
        page.goto("about:blank")  # before the gateway goes away
