"""What the slots of a pool watch, by the control groups that the machine offers."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.sandbox.isolation.hierarchy import Controller
from services.sandbox.isolation.tier import Tier
from services.sandbox.pool.assembly import create_pool
from services.sandbox.pool.pool import Capacity


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize(
    ("controllers", "sampled"),
    [
        (set(), True),
        ({Controller.MEMORY}, True),  # as systemd delegates them to a user without the processors
        ({Controller.MEMORY, Controller.PIDS}, True),
        (set(Controller), False),
    ],
)
def test_slots_end_fork_bombs_in_every_tier_unless_groups_bound_them(
    tier: Tier,
    controllers: set[Controller],
    sampled: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("services.sandbox.pool.assembly.make_folder", lambda: tmp_path)
    monkeypatch.setattr("services.sandbox.pool.assembly._check_reachable", lambda _: None)
    counted = Controller.MEMORY in controllers
    isolation = SimpleNamespace(
        tier=tier, first_user=1, memory_counted=counted, scoped=True, seccomp_filter=b""
    )
    groups = cast(Any, SimpleNamespace(controllers=frozenset(controllers)))
    capacity = Capacity(programs=1, sessions=1, processes=256, disk_bytes=1 << 20)

    pool = create_pool(Path(sys.executable), cast(Any, isolation), groups, capacity)

    assert pool._configuration.samples_processes is sampled
    assert pool._configuration.sampled_memory is not counted
