"""The services of the gateway's local stack, as the supervisor recorded them."""

import os
from pathlib import Path

import pytest

from services.api.stack import degraded, services_of_stack
from services.contracts.stack import ServiceCondition, ServiceStatus, StackService
from temper.stack.services import Service
from tests.support.stack_record import record_stack

FAILED = ServiceCondition(
    status=ServiceStatus.FAILED,
    exits=7,
    reason="trainer exited with exit code 3; log: /secret",
    last_lines=["out of luck"],
    retry_at=12,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    conditions = {Service.API: ServiceCondition(), Service.TRAINER: FAILED}
    record_stack(tmp_path, os.getpid(), conditions)
    return tmp_path


def test_the_services_of_the_supervisor_that_started_the_gateway_are_listed(home: Path) -> None:
    listed = services_of_stack(home, os.getpid())

    assert listed == [StackService(id="api"), StackService(id="trainer", **vars(FAILED))]


def test_readiness_names_failed_services_without_their_logs(home: Path) -> None:
    assert degraded(home, os.getpid()) == {"trainer": "failed (exits: 7)"}


def test_a_gateway_that_another_process_started_belongs_to_no_stack(home: Path) -> None:
    assert services_of_stack(home) == []


@pytest.mark.parametrize("content", [None, "", "{", '{"supervisor": {"pid": 1}}'])
def test_an_unreadable_record_means_no_stack(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "stack.json").write_text(content)

    assert services_of_stack(tmp_path, 1) == []
