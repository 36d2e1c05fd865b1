"""Keeps tests of one xdist group in one worker.

pytest-xdist 3.8 appends a test's group to its id through an attribute that pytest 9.2 no longer
reads. Without this plugin, tests that share a fixture are spread over the workers, and each worker
sets the fixture up again.
"""

import pytest
from _pytest.nodeid import NodeId


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Append the groups to the ids, in workers that were started with ``--dist=loadgroup``."""
    if not getattr(config.option, "loadgroup", False):
        return
    for item in items:
        marker = item.get_closest_marker("xdist_group")
        if marker is not None and "@" not in item.nodeid:
            item._id = NodeId.parse(f"{item.nodeid}@{marker.args[0]}")
