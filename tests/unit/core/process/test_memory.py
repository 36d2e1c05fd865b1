"""The memory that the processes of a job may hold together."""

from pathlib import Path

from services.jobs.worker.utilization import MEMORY_SHARE, job_memory


def test_a_set_limit_is_used() -> None:
    assert job_memory(1.5) == 3 << 29


def test_by_default_a_container_counts_with_its_own_limit(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1073741824\n")

    assert job_memory(None, (limit, tmp_path / "absent")) == int((1 << 30) * MEMORY_SHARE)


def test_an_unlimited_container_counts_with_the_memory_of_the_machine(tmp_path: Path) -> None:
    unlimited = tmp_path / "memory.max"
    unlimited.write_text("max\n")

    assert 0 < job_memory(None, (unlimited,)) == job_memory(None, ())
