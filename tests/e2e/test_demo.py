"""`make demo` without installation, and the other demos."""

import os
import re
import subprocess
import sys
from pathlib import Path

import openpyxl
import psutil
import pytest

from services.core.process.runtimes import REPOSITORY
from tests.support.runtimes import FOLDER, installed_runtime

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(1500)]

PERCENTAGE = r"\d+\.\d%"


def run_demo(home: Path, *name: str, seconds: float = 1200) -> "subprocess.CompletedProcess[str]":
    settings = {"TEMPER_HOME": str(home), "TEMPER_RUNTIMES": str(FOLDER)}
    return subprocess.run(
        [sys.executable, "-m", "temper", "demo", *(name or ("addition",))],
        cwd=REPOSITORY,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def processes_of(home: Path) -> list[psutil.Process]:
    """Processes with this home in their command line or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and (
                any(str(home) in word for word in process.cmdline())
                or process.environ().get("TEMPER_HOME") == str(home)
            ):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_the_demo_teaches_addition_and_a_second_run_reuses_its_results(tmp_path: Path) -> None:
    installed_runtime("training")
    installed_runtime("vllm")

    first = run_demo(tmp_path)

    assert first.returncode == 0, first.stdout + first.stderr
    assert len(re.findall(PERCENTAGE, first.stdout)) >= 4, first.stdout
    assert processes_of(tmp_path) == []

    second = run_demo(tmp_path)

    assert second.returncode == 0, second.stdout + second.stderr
    assert second.stderr.count("reusing") + second.stdout.count("reusing") >= 6
    assert processes_of(tmp_path) == []


@pytest.mark.long
def test_the_rlhf_demo_earns_its_reward_and_the_gamed_one_does_not(tmp_path: Path) -> None:
    installed_runtime("training")
    installed_runtime("vllm")

    done = run_demo(tmp_path, "rlhf")

    assert done.returncode == 0, done.stdout + done.stderr
    rated = [line for line in done.stdout.splitlines() if "95 % interval" in line][-1]
    low, high = (float(share) for share in re.findall(r"(\d+\.\d)%", rated))
    assert 50 < low < high, done.stdout
    assert "  found" not in done.stdout

    gamed = run_demo(tmp_path, "rlhf", "--gamed")

    assert gamed.returncode == 0, gamed.stdout + gamed.stderr
    assert "  found  held_out_gap" in gamed.stdout
    assert processes_of(tmp_path) == []


@pytest.mark.long
def test_the_campaign_demo_finds_the_best_data(tmp_path: Path) -> None:
    installed_runtime("training")
    installed_runtime("vllm")

    done = run_demo(tmp_path, "campaign")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SCRIPTED" in done.stdout + done.stderr
    verdicts = re.findall(r"loop (\d): (base model|accepted|rejected)", done.stdout)
    assert verdicts[:2] == [("0", "base model"), ("1", "accepted")], done.stdout
    assert verdicts[2:] == [("2", "accepted"), ("3", "rejected")], done.stdout
    assert processes_of(tmp_path) == []


@pytest.mark.long
def test_the_evaluation_demo_compares_two_models_and_writes_reports(tmp_path: Path) -> None:
    installed_runtime("training")
    installed_runtime("vllm")

    done = run_demo(tmp_path, "evaluate")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "paired_t" in done.stdout
    folder = tmp_path / "demo" / "evaluation"
    workbook = openpyxl.load_workbook(folder / "report.xlsx", read_only=True)
    assert workbook.sheetnames == ["Summary", "Comparison", "Changes", "Rows"]
    workbook.close()
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "src=" not in page
    table = (folder / "table.md").read_text().splitlines()
    assert len(table) == 4
    assert table[3].startswith("| tiny-base |"), table
    assert processes_of(tmp_path) == []


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_the_demo_of_a_published_model_learns_by_tuning_and_then_by_rl(tmp_path: Path) -> None:
    installed_runtime("training")
    installed_runtime("vllm")

    done = run_demo(tmp_path, "real", seconds=7000)

    assert done.returncode == 0, done.stdout + done.stderr
    right = next(line for line in done.stdout.splitlines() if "right calls" in line)
    published, tuned, reinforced = (float(share) for share in re.findall(r"(\d+\.\d)%", right))
    assert published < 5, done.stdout
    assert tuned > 30, done.stdout
    assert reinforced > tuned + 5, done.stdout
    assert processes_of(tmp_path) == []
