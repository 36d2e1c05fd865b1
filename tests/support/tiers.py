"""Cost tiers of the tests: which one a test belongs to, its time limit, and its xdist group.

A test belongs to the tier of its own marker, else to that of the longest prefix of its path in
`FOLDERS`. Folders are listed here so that the tests of a room move between tiers in one place.
"""

from pathlib import Path, PurePosixPath

import pytest

TIME_LIMITS = {"fast": 300, "service": 600, "runtime": 900, "long": 3600}
"""Seconds per test, set-up included, unless it has its own marker.

They end tests that hang, so they leave room for a machine that is ten times slower than usual.
"""

FOLDERS = {
    "tests/architecture": "fast",
    "tests/contract": "service",
    "tests/e2e": "runtime",
    "tests/integration": "service",
    "tests/unit": "fast",
    # These install environments.
    "tests/unit/infra/test_core_environment.py": "runtime",
    "tests/unit/runtimes/test_install.py": "service",
}

DRILLS = (
    "tests/architecture/test_processes.py",
    "tests/contract/retrieval/test_openapi.py",
    "tests/contract/retrieval/test_published_clients.py",
    "tests/contract/sandbox/test_busy_sandbox.py",
    "tests/contract/sandbox/test_openapi.py",
    "tests/contract/sandbox/test_openapi_of_sessions.py",
    "tests/contract/jobs/test_checks.py",
    "tests/contract/files/test_file_rows_of_hub_models.py",
    "tests/contract/test_openapi.py",
    "tests/integration/batches/test_batches.py",
    "tests/integration/batches/test_own_engine.py",
    "tests/integration/dashboard/test_campaigns.py",
    "tests/integration/dashboard/test_chat.py",
    "tests/integration/dashboard/jobs/test_curves.py",
    "tests/integration/dashboard/test_data.py",
    "tests/integration/dashboard/test_evaluations.py",
    "tests/integration/dashboard/test_every_view.py",
    "tests/integration/dashboard/test_filled_forms.py",
    "tests/integration/dashboard/jobs/test_job_details.py",
    "tests/integration/dashboard/jobs/test_job_filters.py",
    "tests/integration/dashboard/jobs/test_job_overview.py",
    "tests/integration/dashboard/test_lineage.py",
    "tests/integration/dashboard/jobs/test_log_tail.py",
    "tests/integration/dashboard/test_notes.py",
    "tests/integration/dashboard/jobs/test_phases.py",
    "tests/integration/dashboard/test_reconnect.py",
    "tests/integration/dashboard/test_screenshots.py",
    "tests/integration/dashboard/jobs/test_sweeps.py",
    "tests/integration/dashboard/test_tabs.py",
    "tests/integration/dashboard/test_tokens.py",
    "tests/integration/dashboard/test_trajectories.py",
    "tests/integration/dashboard/test_waiting.py",
    "tests/integration/retrieval/test_build_kills.py",
    "tests/integration/retrieval/test_full_disk.py",
    "tests/integration/retrieval/test_index_command.py",
    "tests/integration/retrieval/test_indexing_jobs.py",
    "tests/integration/retrieval/test_processes.py",
    "tests/integration/retrieval/test_service.py",
    "tests/integration/rollout/test_demo_data.py",
    "tests/integration/rollout/test_environment_sessions.py",
    "tests/integration/rollout/test_faults.py",
    "tests/integration/rollout/test_rollout_job.py",
    "tests/integration/rollout/test_rollout_worker.py",
    "tests/integration/rollout/test_tools.py",
    "tests/integration/sandbox/hostile/test_disk.py",
    "tests/integration/sandbox/hostile/test_memory.py",
    "tests/integration/sandbox/hostile/test_processes.py",
    "tests/integration/sandbox/pool/test_concurrency.py",
    "tests/integration/sandbox/pool/test_failures.py",
    "tests/integration/sandbox/pool/test_limits.py",
    "tests/integration/sandbox/sessions/test_cells.py",
    "tests/integration/sandbox/sessions/test_lifecycle.py",
    "tests/integration/sandbox/sessions/test_stops.py",
    "tests/integration/sandbox/test_killed_service.py",
    "tests/integration/sandbox/test_leaks.py",
    "tests/integration/sandbox/test_load.py",
    "tests/integration/sandbox/test_network.py",
    "tests/integration/sandbox/test_python_programs.py",
    "tests/integration/sandbox/test_queue.py",
    "tests/integration/sandbox/test_script_services.py",
    "tests/integration/sandbox/test_start.py",
    "tests/integration/campaigns/test_campaign_batch.py",
    "tests/integration/campaigns/test_campaigns.py",
    "tests/integration/evaluation/test_evaluation_child.py",
    "tests/integration/evaluation/test_evaluation_of_local_models.py",
    "tests/integration/evaluation/test_evaluation_of_several_benchmarks.py",
    "tests/integration/evaluation/test_evaluation_reuse.py",
    "tests/integration/evaluation/test_evaluation_with_tools.py",
    "tests/integration/jobs/test_full_disk_of_a_job.py",
    "tests/integration/serving/test_response_kills.py",
    "tests/integration/stack/test_stack_retrieval.py",
    "tests/integration/stack/test_stack_sandbox.py",
    "tests/integration/jobs/test_validation_child.py",
    "tests/integration/jobs/test_worker.py",
    "tests/unit/api/serving/test_lives.py",
    "tests/unit/evaluator/serve/test_child.py",
    "tests/unit/infra/test_groups.py",
    "tests/unit/infra/test_leftovers.py",
    "tests/unit/infra/test_reruns.py",
    "tests/unit/jobs/test_concurrency.py",
    "tests/unit/jobs/worker/test_stalls.py",
    "tests/unit/retrieval/encoder/test_process.py",
    "tests/unit/retrieval/service/test_catalog.py",
    "tests/unit/retrieval/store/test_concurrency.py",
    "tests/unit/retrieval/store/test_kills.py",
    "tests/unit/retrieval/test_python_documentation.py",
    "tests/unit/rewards/families/test_chemistry.py",
    "tests/unit/rewards/families/test_chemistry_properties.py",
    "tests/unit/rewards/families/test_chemistry_reactions.py",
    "tests/unit/rollouts/agents/test_clients.py",
    "tests/unit/rollouts/agents/test_token_exactness.py",
    "tests/unit/runtimes/test_install.py",
    "tests/unit/trainer/rl/test_learner_client.py",
)
"""Files that fuzz, repeat kills, fill disks, count leaks, start many processes or hundreds of
programs, start whole stacks for minutes, load a runtime for one corner of the product, or drive a
browser through one part of the dashboard in detail: they are left to `make test-rest`."""

SPREAD = ("tests/integration/sandbox/test_python_programs.py",)
"""Files whose tests run in parallel although they share a fixture of the module."""

TOGETHER = (
    "tests/contract",
    "tests/integration/cli",
    "tests/integration/dashboard",
    "tests/integration/sandbox/hostile",
    "tests/integration/sandbox/languages",
    "tests/integration/sandbox/pool",
    "tests/integration/sandbox/scripts",
    "tests/integration/sandbox/sessions",
)
"""Folders whose tests run in one worker: they share servers of the session, or a browser."""


def check_paths(repository: Path) -> None:
    """Raise `pytest.UsageError` if one of the files and folders above does not exist.

    It was moved or removed, and the tests that replaced it are in a tier that nobody chose.
    """
    listed = (*FOLDERS, *DRILLS, *SPREAD, *TOGETHER)
    if missing := sorted(path for path in listed if not (repository / path).exists()):
        raise pytest.UsageError(f"tests/support/tiers.py: no such file: {', '.join(missing)}")


def assign(item: pytest.Item) -> None:
    """Mark a test with its tier, time limit and xdist group, and drills as such."""
    tier = tier_of(item)
    item.add_marker(tier)
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(TIME_LIMITS[tier]))
    path = _path(item)
    if path in DRILLS:
        item.add_marker("drill")
    group = next((each for each in TOGETHER if path.startswith(f"{each}/")), None)
    if group is None and path not in SPREAD and _belongs_to_file(item):
        group = path
    if group is not None:
        item.add_marker(pytest.mark.xdist_group(group))


def tier_of(item: pytest.Item) -> str:
    """The tier of a collected test; the most expensive one if it is marked with several."""
    marked = [tier for tier in TIME_LIMITS if item.get_closest_marker(tier)]
    if marked:
        return marked[-1]
    path = PurePosixPath(_path(item))
    return FOLDERS[max((each for each in FOLDERS if path.is_relative_to(each)), key=len)]


def _belongs_to_file(item: pytest.Item) -> bool:
    """Whether a test shares something expensive with the others of its file."""
    if not isinstance(item, pytest.Function):  # the file runs as a whole in a runtime
        return True
    definitions = item._fixtureinfo.name2fixturedefs.values()
    return any(each[-1].scope in {"module", "package"} for each in definitions if each)


def _path(item: pytest.Item) -> str:
    return item.path.relative_to(item.config.rootpath).as_posix()
