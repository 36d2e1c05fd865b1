"""Debian's Chromium on the pages of a gateway with a stub worker, and of one with keys."""

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, Response, expect, sync_playwright

from tests.support.dashboard.showcase import Showcase
from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",  # the tests run as root
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 60_000
KEY = "temper-test-key"

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        "TEMPER_HOME": str(tmp_path_factory.mktemp("dashboard") / "home"),
        "TEMPER_GRACE_SECONDS": "1",
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_CPU_SLOTS": "4",
        "TEMPER_RETRY_SECONDS": "0.1",
    }


@pytest.fixture(scope="session")
def gateway(settings: dict[str, str]) -> Iterator[GatewayClient]:
    """A gateway with a worker whose jobs run the script named by their suffix."""
    home = Path(settings["TEMPER_HOME"])
    with (
        running_gateway(settings, home.parent / "gateway.log") as url,
        running("tests.support.jobs.stub_worker", [], settings, home.parent / "worker.log"),
        GatewayClient(url, home) as client,
    ):
        yield client


@pytest.fixture(scope="session")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Showcase]]:
    """The URL of a gateway that requires keys, and the contents of its home."""
    folder = tmp_path_factory.mktemp("furnished")
    hashed = hashlib.sha256(KEY.encode()).hexdigest()
    settings = {"TEMPER_HOME": str(folder / "home"), "TEMPER_API_KEY_HASHES": hashed}
    with (
        running_gateway(settings, folder / "gateway.log") as url,
        GatewayClient(url, folder / "home") as client,
    ):
        client.http.headers["Authorization"] = f"Bearer {KEY}"
        yield url, Showcase(client)


OFFLINE = "net::ERR_INTERNET_DISCONNECTED"
"""Logged only in tests that go offline."""

NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
"""Logged when a network namespace or interface comes or goes, as beside tests of the sandbox: the
browser aborts its requests, and the dashboard repeats them."""


class SharedBrowser:
    """One browser for all tests of the folder that run in a row."""

    def __init__(self) -> None:
        self._resources = ExitStack()
        self._browser: Browser | None = None

    def opened(self) -> Browser:
        if self._browser is None:
            playwright = self._resources.enter_context(sync_playwright())
            self._browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            self._resources.callback(self._browser.close)
        return self._browser

    def close(self) -> None:
        self._browser = None
        self._resources.close()


SHARED = SharedBrowser()


@pytest.fixture
def browser() -> Browser:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    return SHARED.opened()


@pytest.hookimpl(trylast=True)  # after the fixtures of the test
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Close the browser before other tests: while it runs, the process cannot use asyncio."""
    if "browser" not in getattr(nextitem, "fixturenames", ()):
        SHARED.close()


@pytest.fixture
def expected_errors() -> list[str]:
    """Substrings of console errors that the test expects."""
    return [OFFLINE, NETWORK_CHANGED]


def patient(navigate: Callable[..., Response | None]) -> Callable[..., Response | None]:
    """Navigate again where the network changed meanwhile, as a browser with a person would."""

    def call(*arguments: Any, **options: Any) -> Response | None:
        for _ in range(5):
            with suppress_change():
                return navigate(*arguments, **options)
        return navigate(*arguments, **options)

    return call


@contextmanager
def suppress_change() -> Iterator[None]:
    """Suppress the error of a navigation during which the network changed."""
    try:
        yield
    except Error as error:
        if NETWORK_CHANGED not in str(error):
            raise


@pytest.fixture
def page(browser: Browser, expected_errors: list[str]) -> Iterator[Page]:
    """A page in its own browser profile; fails on unexpected console errors."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto = patient(page.goto)  # type: ignore[method-assign]  # waits longer on a busy machine
    page.reload = patient(page.reload)  # type: ignore[method-assign]  # waits longer on a busy machine
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console",
        lambda message: problems.append(message.text) if message.type == "error" else None,
    )
    yield page
    context.close()
    # The browser logs failed requests itself.
    assert [each for each in problems if not any(part in each for part in expected_errors)] == []
