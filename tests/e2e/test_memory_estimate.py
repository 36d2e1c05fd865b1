"""The command that measures peaks of trainings, on a model of a small published size."""

import subprocess

import pytest

from services.core.process.runtimes import REPOSITORY, child_environment
from tests.support.runtimes import installed_runtime


@pytest.mark.long
def test_estimates_for_135_million_weights_are_the_measured_peaks_within_15_percent() -> None:
    done = subprocess.run(
        [
            installed_runtime("training").python,
            *("-m", "benchmarks.memory", "smollm2-135m", "--lengths", "64", "256", "--rows", "1"),
        ],
        cwd=REPOSITORY,
        env=child_environment({"HF_HUB_OFFLINE": "1"}),
        capture_output=True,
        text=True,
        timeout=3500,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("recomputing") == 28, done.stdout
