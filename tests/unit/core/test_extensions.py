"""Rewards, tools and trackers of a package that is installed beside ours."""

from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.jobs.worker.settings import WorkerSettings
from services.rewards.check import check_rewards
from services.rewards.families import family_and_settings
from services.rollouts.tools.declaration import declarations
from tests.support.extension import write_wheel
from tests.support.rewards import rewarded, trajectory, weighted
from tests.unit.rollouts.tools.toolboxes import call

BREVITY = {"type": "extension", "name": "brevity", "settings": {"most": 10}}


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(write_wheel(tmp_path)))


@pytest.mark.usefixtures("_installed")
def test_a_reward_of_a_package_scores() -> None:
    check_rewards(weighted(BREVITY), [], [])

    assert rewarded(trajectory("12345"), BREVITY).reward == 0.5


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("changes", "param", "message"),
    [
        ({"settings": {"most": 0}}, "rewards[0].reward.settings.most", "greater than 0"),
        ({"settings": {"more": 1}}, "rewards[0].reward.settings.most", "Field required"),
        ({"name": "levity"}, "rewards[0].reward.name", "installed are: brevity"),
    ],
)
def test_settings_that_the_package_refuses_are_named(
    changes: dict[str, object], param: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        check_rewards(weighted({**BREVITY, **changes}), [], [])
    assert raised.value.param == param


@pytest.mark.usefixtures("_installed")
def test_a_package_may_refuse_rows() -> None:
    (each,) = weighted(BREVITY)
    family, settings = family_and_settings(each.reward, "grader")  # type: ignore[arg-type]  # a reward of another family would fail the test

    family.check_row({}, ["short"], settings)
    with pytest.raises(InvalidRequest):
        family.check_row({}, ["long enough"], settings)


@pytest.mark.usefixtures("_installed")
def test_a_tool_of_a_package_answers() -> None:
    tool = Tool(class_name="word-count")

    assert call(tool, {"text": "two words"}).text == "2"
    assert call(tool, {"txet": "two words"}).outcome is CallOutcome.INVALID_ARGUMENTS
    with pytest.raises(InvalidRequest, match=r"known are .*, word-count"):
        declarations([Tool(class_name="word-counts")], "tools")


def test_a_tracker_that_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_TRACKERS", "mlflow, lines")

    with pytest.raises(ValueError, match="'lines' is not a tracker; known are wandb"):
        WorkerSettings()
