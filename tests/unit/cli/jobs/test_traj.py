"""``temper traj``: trajectories in a terminal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response

from services.api.trajectories.listing import summary_view
from services.contracts.base import Page
from services.contracts.jobs import Job
from services.contracts.rollouts.rollouts import TrajectorySummary
from services.contracts.rollouts.tokens import TokenOrigin, TrajectoryToken, TrajectoryTokens
from services.contracts.rollouts.training_rows import TrainingRows
from services.contracts.rollouts.trajectories import CallOutcome, Trajectory
from temper.cli.main import main
from temper.client import Temper
from temper.client.trajectories import TrajectoryFilter
from tests.support.trajectories import call, endpoint_trajectory, trajectory
from tests.unit.cli.conftest import ScriptedServer

JOB = "rollout-1"
PATH = f"/v1/rollouts/{JOB}/trajectories"


def answer(value: Any) -> Response:
    return Response(value.model_dump_json(), media_type="application/json")


def page(*trajectories: Trajectory) -> Callable[[Request], Response]:
    found = [summary_view(each) for each in trajectories]
    return lambda _: answer(Page[TrajectorySummary](data=found))


@pytest.fixture
def made() -> Trajectory:
    replied = call("search", arguments={"q": "Faust"}, reply="Goethe wrote it", shown="Goethe")
    failed = call("search", CallOutcome.TIMED_OUT)
    return trajectory(
        3, 1, reward=0.75, reward_components={"em": 0.75}, calls=[replied, failed], seconds=2.0
    )


@pytest.fixture
def gateway(
    server: ScriptedServer, made: Trajectory, monkeypatch: pytest.MonkeyPatch
) -> ScriptedServer:
    monkeypatch.setenv("TEMPER_API_URL", server.url)
    job = Job.model_validate({"id": JOB, "created_at": 0, "status": "running", "kind": "rollout"})
    server.on(f"/v1/jobs/{JOB}", answer(job))
    server.on(PATH, page(made))
    server.on(f"{PATH}/{made.id}", answer(made))
    return server


def test_the_samples_of_a_prompt_are_listed_with_their_advantages(
    gateway: ScriptedServer, made: Trajectory, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = summary_view(made).model_copy(update={"step": 7, "advantage": -0.5})
    gateway.on(PATH, answer(Page[TrajectorySummary](data=[learned])))

    assert main(["traj", JOB, "--prompt", "3"]) == 0

    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[-2:] == ["STEP", "ADVANTAGE"]
    assert line.split()[-2:] == ["7", "-0.5"]


def recorded_queries(gateway: ScriptedServer) -> list[dict[str, str]]:
    """The queries of the following list requests."""
    queries: list[dict[str, str]] = []
    listed = gateway.answers[PATH][0]

    def note(request: Request) -> Response:
        queries.append(dict(request.query_params))
        return listed(request)

    gateway.on(PATH, note)
    return queries


def test_trajectories_are_listed_one_per_line(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["traj", JOB]) == 0

    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["ID", "REWARD", "ENDED"]
    cells = line.split()
    assert cells[:8] == ["traj-3-1", "0.75", "answered", "1", "2", "1", "2", "2s"]
    assert line.endswith("question 3  answer 3.1")


def test_control_characters_in_model_text_are_removed(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = trajectory(messages=[{"role": "user", "content": "\x1b]0;owned\x07\nnext \x9b2J"}])
    gateway.on(PATH, page(hostile))
    gateway.on(f"{PATH}/{hostile.id}", answer(hostile))

    main(["traj", JOB])
    main(["traj", JOB, hostile.id])

    shown = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_a_trajectory_is_shown_in_full_with_its_calls(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], made: Trajectory
) -> None:
    assert main(["traj", JOB, made.id]) == 0

    shown = capsys.readouterr().out
    for expected in ("question 3", "answer 3.1", "search", "Faust", "Goethe", "reward 0.75"):
        assert expected in shown


def test_masks_are_shown_on_request(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], made: Trajectory
) -> None:
    main(["traj", JOB, made.id])
    plain = capsys.readouterr().out
    main(["traj", JOB, made.id, "--masks"])
    masked = capsys.readouterr().out

    assert "1 | " in masked
    assert "1 | " not in plain


def test_tokens_are_listed_over_all_pages(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], made: Trajectory
) -> None:
    first = TrajectoryToken(position=0, id=5, text="a\x1b\n", origin=TokenOrigin.PROMPT)
    second = TrajectoryToken(
        position=1, id=6, text=None, origin=TokenOrigin.SAMPLED, log_prob=-0.25, policy_version=3
    )
    pages = [
        TrajectoryTokens(trajectory_id=made.id, total=2, data=[token], next_start=following)
        for token, following in ((first, 1), (second, None))
    ]
    gateway.on(
        f"{PATH}/{made.id}/tokens", lambda each: answer(pages[int(each.query_params["start"])])
    )

    assert main(["traj", JOB, made.id, "--tokens"]) == 0

    _, prompt, sampled = capsys.readouterr().out.splitlines()
    assert prompt.split() == ["0", "5", '"a\\u001b\\n"', "prompt"]
    assert sampled.split() == ["1", "6", "sampled", "-0.25", "3"]
    assert main(["traj", JOB, "--tokens"]) == 2


@pytest.mark.parametrize(("option", "order"), [("--best", "desc"), ("--worst", "asc")])
def test_the_best_and_the_worst_are_shown_in_full(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], option: str, order: str
) -> None:
    queries = recorded_queries(gateway)

    assert main(["traj", JOB, option, "1"]) == 0

    assert queries == [{"sort": "reward", "order": order, "limit": "1"}]
    assert "Goethe" in capsys.readouterr().out


def test_filters_become_query_parameters(gateway: ScriptedServer) -> None:
    queries = recorded_queries(gateway)

    main(["traj", JOB, "--sort", "length", "--asc", "--min-reward", "0.5", "--errors", "-n", "7"])

    assert queries == [
        {"sort": "length", "order": "asc", "min_reward": "0.5", "errors": "true", "limit": "7"}
    ]


def test_a_search_continues_past_pages_without_a_match(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], made: Trajectory
) -> None:
    nothing = Page[TrajectorySummary](data=[], has_more=True, last_id="traj-0-0")
    found = Page[TrajectorySummary](data=[summary_view(made)])
    gateway.on(PATH, lambda asked: answer(found if "after" in asked.query_params else nothing))

    assert main(["traj", JOB, "--text", "Goethe"]) == 0

    assert made.id in capsys.readouterr().out


def test_the_list_marks_estimated_token_counts(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [endpoint_trajectory(), trajectory(sample=1, tokens=33)]
    gateway.on(PATH, answer(Page[TrajectorySummary](data=list(map(summary_view, both)))))

    assert main(["traj", JOB]) == 0

    estimated, counted = capsys.readouterr().out.splitlines()[1:]
    assert "about 102" in estimated
    assert " 33 " in counted
    assert "about" not in counted


def test_json_output_is_the_trajectory_record(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], made: Trajectory
) -> None:
    main(["traj", JOB, made.id, "--json"])

    assert json.loads(capsys.readouterr().out) == made.model_dump(mode="json")


def test_all_trajectories_are_saved_to_one_file(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gateway.on(f"/v1/rollouts/{JOB}/content", Response(b"PAR1"))

    assert main(["traj", JOB, "--save", str(tmp_path / "all.parquet")]) == 0

    assert (tmp_path / "all.parquet").read_bytes() == b"PAR1"


def test_jobs_of_other_kinds_have_no_trajectories(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job.model_validate({"id": "j", "created_at": 0, "status": "running", "kind": "indexing"})
    gateway.on("/v1/jobs/j", answer(job))

    assert main(["traj", "j"]) == 1
    assert "no_trajectories" in capsys.readouterr().err


def test_the_client_parses_trajectories(
    gateway: ScriptedServer, client: Temper, made: Trajectory
) -> None:
    listed = client.trajectories.page(JOB, where=TrajectoryFilter(prompt=3)).data

    assert [each.id for each in listed] == [made.id]
    assert client.trajectories.get(JOB, made.id) == made


def test_a_training_file_is_made_on_the_gateway(
    gateway: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    file = {
        **{"id": "file-1", "bytes": 9, "created_at": 0, "filename": "rows.jsonl"},
        **{"purpose": "fine-tune", "sha256": "0" * 64},
    }
    lost = {"reason": "no reward", "count": 3, "first": "traj-9-0"}
    rows = {"file": file, "layout": "preference", "rows": 2, "trajectories": 7}
    gateway.on(
        f"{PATH}/training_rows",
        answer(TrainingRows.model_validate({**rows, "has_more": True, "left_out": [lost]})),
    )

    status = main(["traj", JOB, "--rows", "preference", "--min-reward", "0.5", "-n", "7"])

    printed = capsys.readouterr()
    assert status == 0
    assert "file-1  2 rows of 7 trajectories" in printed.out
    assert "3, first traj-9-0: no reward" in printed.err
    assert "-n 14" in printed.err
    assert main(["traj", JOB, "--rows", "preference", "--errors"]) != 0
    assert "--min-reward" in capsys.readouterr().err
