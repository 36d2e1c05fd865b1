"""Settings and tiers of all tests."""

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.leftovers import watch_this_run
from tests.support.runtime.runtime_tests import INSIDE
from tests.support.tiers import assign, check_paths

pytest_plugins = ["tests.support.groups", "tests.support.reruns"]

# A shell starts background commands with SIGINT ignored, and children inherit that: without this,
# tests of Ctrl-C would fail in a test run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
watch_this_run()

# Threads of a library that spin while they wait for each other take the cores of other tests: on a
# busy machine a training step took fifteen times the processor's time. Children inherit both.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No deadlines: the machine may be busy.
busy = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A change is judged by the same examples everywhere; `make test-full` looks for new ones.
settings.register_profile("fast", busy, derandomize=True, max_examples=15)
settings.register_profile("exploring", busy, max_examples=200)
settings.load_profile("fast")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage among the tests and modules that live to the end: it took half of the
    time of collecting them, and would be repeated while they run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Assign the tiers before tests are selected by them."""
    if INSIDE in os.environ:
        return
    check_paths(config.rootpath)
    for item in items:
        assign(item)
