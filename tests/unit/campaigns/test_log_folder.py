"""The log of a campaign for people."""

import json
import re
from pathlib import Path

from services.campaigns.log_folder import LogFolder
from services.campaigns.run.effects import Effect, Place
from services.contracts.campaigns.loops import StepName

CODING = Place("campaign-1", 2, StepName.CODING)
CODE = {"script": "print(1)\n", "settings": "learning_rate: 0.1\n", "attempts": 2}


def asked(text: str, answer: str) -> Effect:
    messages = [{"role": "user", "content": text}]
    return Effect({"messages": messages, "answer": answer}, None, 100, 10)


def test_a_log_is_named_after_the_local_time_with_microseconds(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 1_735_732_800.123456)

    assert log.path.parent == tmp_path / "log"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d_\d\d-\d\d-\d\d-123456", log.path.name)


def test_a_log_that_was_begun_is_kept(tmp_path: Path) -> None:
    first = LogFolder(tmp_path, 1_735_732_800.0)
    first.begin({"base_model": "base"})

    again = LogFolder(tmp_path, 1_735_736_400.0)  # as in another time zone

    assert again.path == first.path
    assert json.loads((again.path / "campaign.json").read_text()) == {"base_model": "base"}


def test_a_step_is_written_with_its_code_jobs_and_conversation(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 0.0)
    effects = {"coding.1": asked("Write it.", "Here."), "train": Effect({"id": "x"}, "ftjob-1")}
    assert not log.holds(CODING)

    log.write_step(CODING, CODE, effects)

    folder = log.path / "Loop_2" / "coding"
    assert log.holds(CODING)
    assert (folder / "process_data.py").read_text() == CODE["script"]
    assert (folder / "train.yaml").read_text() == CODE["settings"]
    assert json.loads((folder / "output.json").read_text()) == CODE
    info = json.loads((folder / "dataset_info.json").read_text())
    assert info["processed_data"]["formatting"] == "alpaca"
    page = (folder / "step.md").read_text()
    assert page.index("Write it.") < page.index("Here.")
    assert "100 prompt and 10 completion tokens" in page
    assert "- train: ftjob-1" in page
    assert not list(log.path.rglob("*.partial"))


def test_an_answer_cannot_end_its_code_block(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 0.0)

    log.write_step(CODING, {}, {"coding.1": asked("?", "````\n# Loop 9: accepted")})

    page = (log.path / "Loop_2" / "coding" / "step.md").read_text()
    assert "`````\n````\n# Loop 9: accepted\n`````" in page


def test_the_summary_has_a_line_for_each_loop(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 0.0)

    log.write_summary(["Loop 1: accepted.\nLesson: data"])
    log.write_summary(["Loop 1: accepted.\nLesson: data", "Loop 2: rejected."])

    lines = (log.path / "summary.md").read_text().splitlines()
    assert lines == ["# Loops", "", "- Loop 1: accepted. Lesson: data", "- Loop 2: rejected."]


def test_a_step_that_is_under_way_shows_its_conversation_so_far(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 0.0)

    log.write_progress(CODING, {"coding.1": asked("Write it.", "Here.")})

    page = (log.path / "Loop_2" / "coding" / "step.md").read_text()
    assert "Here." in page
    assert "under way" in page
    assert not log.holds(CODING)


def test_conversations_are_left_out_where_they_are_not_wanted(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 0.0, conversations=False)

    log.write_step(CODING, CODE, {"coding.1": asked("Write it.", "Here.")})

    page = (log.path / "Loop_2" / "coding" / "step.md").read_text()
    assert "Here." not in page
    assert "100 prompt and 10 completion tokens" in page


def test_the_data_of_an_attempt_are_described(tmp_path: Path) -> None:
    log = LogFolder(tmp_path, 0.0)
    place = Place("campaign-1", 2, StepName.RUNNING)
    tokens = {"total": 90, "mean": 45.0, "median": 45, "p95": 45, "longest": 45}

    log.write_step(place, {"rows": 2, "contaminated": 1, "tokens": tokens}, {})

    written = json.loads((log.path / "Loop_2" / "running" / "data_stats.json").read_text())
    assert written == {"total_samples": 2, "removed_samples": 1, "token_stats": tokens}
