"""Rewards, tools and trackers of a package that is installed beside ours."""

import sys
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest, JobFailed
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.rewards import ExtensionReward
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.jobs.worker.settings import WorkerSettings
from services.rewards.check import check_rewards
from services.rewards.families import check_row, grader_metric, may_regrade
from services.rollouts.tools.declaration import declarations
from services.rollouts.tools.health import check_tools_respond
from tests.support.evaluation.evaluation_view import metrics_of
from tests.support.extension import write_package, write_wheel
from tests.support.rewards import rewarded, trajectory, weighted
from tests.unit.rollouts.tools.toolboxes import call, with_tools

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
    reward = ExtensionReward(name="brevity", settings={"most": 10})

    check_row(reward, "grader", {}, ["short"])
    with pytest.raises(InvalidRequest, match="has 10 or more characters"):
        check_row(reward, "grader", {}, ["long enough"])


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


BROKEN = """
from contextlib import nullcontext
from pydantic import BaseModel
from services.contracts.evaluation.metrics import MainMetric
from services.metrics.measures import MeasureRules
from services.rewards.families import RewardFamily
from services.rewards.interface import Score
from services.rollouts.tools.base import ToolResult
from services.rollouts.tools.configuration import ToolConfig
from services.rollouts.tools.families import ToolFamily

text = "not a family"

def helpless(needed): pass

class Raising(RewardFamily):
    def __init__(self): raise OSError("no such file")
    def open(self, settings, context): pass

class Unset(RewardFamily):
    def open(self, settings, context): pass

class Settings(BaseModel): pass

class Closed(RewardFamily):
    settings = Settings
    def open(self, settings, context): raise KeyError("model")
    def check_row(self, fields, golds, settings): return fields["missing"]
    def main_metric(self, settings, metrics): return "high"
    def may_regrade(self, settings, environment): raise KeyError("boom")

class Graded(RewardFamily):
    settings = Settings
    def open(self, settings, context): return nullcontext(self)
    async def score(self, sample):
        what = sample.answer
        if what == "raise": raise ZeroDivisionError("division by zero")
        if what == "refuse": raise ConnectionError("nothing listens")
        if what == "mapping": return Score({"score": 1})
        if what == "extracted": return Score(1.0, extracted=5)
        return 0.5 if what == "number" else Score("1")

def declaring(**attributes): return type("Declaring", (Graded,), attributes)

Set = declaring(settings=dict)
Run = declaring(runtime=5)
Extracting = declaring(extracts="yes")
Golds = declaring(json_golds=1)
Measured = declaring(measures={"a": 1})
Lower = declaring(measures=MeasureRules(lower_is_better="seconds"))
Ratios = declaring(measures=MeasureRules(ratios={"f1": "ab"}))
Metric = declaring(main_metric=lambda *_: MainMetric(name="m", mean=float("nan")),
                   may_regrade=lambda *_: True)

class ClosedTool(ToolFamily):
    config = ToolConfig
    schema = {"type": "function", "function": {"name": "closed", "description": "",
              "parameters": {"type": "object", "properties": {}}}}
    def open(self, config, environment): raise KeyError("model")

class Schemeless(ClosedTool):
    schema = {"type": "function"}

class Plain(ClosedTool):
    config = dict

class Called(ClosedTool):
    idempotent = False
    def open(self, config, environment): return nullcontext(self)
    async def run(self, arguments):
        if arguments: raise ZeroDivisionError("division by zero")
        return 5
    async def probe(self): raise ZeroDivisionError("division by zero")
"""
DECLARING = ("Set", "Run", "Extracting", "Golds", "Measured", "Lower", "Ratios", "Metric")
REWARDS = {
    **{name: f"broken:{name}" for name in DECLARING},
    **{name: f"broken:{name}" for name in ("text", "helpless", "Raising", "Unset", "Closed")},
    **{"Graded": "broken:Graded", "absent": "broken:absent", "tool": "broken:Called"},
    **{"unreadable": "unreadable:Family", "leaving": "leaving:Family"},
}
TOOLS = {
    **{name: f"broken:{name}" for name in ("ClosedTool", "Schemeless", "Plain", "Called")},
    **{"raising": "broken:Raising", "unreadable": "unreadable:Family"},
}


@pytest.fixture
def _broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in which everything is wrong in its own way."""
    points = {"temper.rewards": REWARDS, "temper.tools": TOOLS}
    folder = write_package(tmp_path / "site-packages", "broken", BROKEN, points)
    (folder / "unreadable.py").write_text("def :")
    (folder / "leaving.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(str(folder))
    for module in ("broken", "unreadable", "leaving"):
        monkeypatch.delitem(sys.modules, module, raising=False)


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unreadable", "cannot be imported: SyntaxError"),
        ("leaving", "cannot be imported: SystemExit: 3"),
        ("absent", "cannot be imported: AttributeError"),
        ("text", "cannot be made: TypeError: 'str' object is not callable"),
        ("helpless", "cannot be made: TypeError"),
        ("Raising", "cannot be made: OSError: no such file"),
        ("tool", "is not a family of rewards"),
        ("Unset", "failed: AttributeError"),
        ("Closed", "failed: KeyError: 'model'"),
        ("Set", "failed: TypeError: its settings is <class 'dict'>, not a model of pydantic"),
        ("Run", r"failed: TypeError: its runtime is 5, not str \| None"),
        ("Extracting", "failed: TypeError: its extracts is 'yes', not bool"),
        ("Golds", "failed: TypeError: its json_golds is 1, not bool"),
        ("Measured", "failed: TypeError: its measures is {'a': 1}, not MeasureRules"),
        ("Lower", "failed: TypeError: its measures.lower_is_better: Input should be"),
        ("Ratios", "failed: TypeError: its measures.ratios.f1: Input should be"),
    ],
)
def test_a_reward_that_cannot_be_used_is_named(name: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the extension '{name}' {message}") as raised:
        rewarded(trajectory("a"), {"type": "extension", "name": name})
    assert raised.value.param == "rewards[0].reward.name"
    assert raised.value.code == "extension_failed"


@pytest.mark.usefixtures("_broken")
def test_a_row_that_breaks_a_check_of_a_package_names_the_package() -> None:
    reward = ExtensionReward(name="Closed")

    with pytest.raises(InvalidRequest, match="the extension 'Closed' failed: KeyError") as raised:
        check_row(reward, "grader", {}, [])
    assert raised.value.param == "grader.name"


@pytest.mark.usefixtures("_broken")
def test_what_an_evaluation_asks_of_a_package_names_it() -> None:
    reward = ExtensionReward(name="Closed")

    with pytest.raises(InvalidRequest, match="'Closed' failed: KeyError: 'boom'") as raised:
        may_regrade(reward, "grader", OperatorEnvironment())
    assert raised.value.param == "grader.name"
    metrics = EvaluationMetrics.model_validate(metrics_of(0.5))
    with pytest.raises(InvalidRequest, match="'Closed' failed: TypeError: its main metric is not"):
        grader_metric(reward, "grader", metrics)
    reward = ExtensionReward(name="Metric")
    with pytest.raises(InvalidRequest, match="its main metric m has a number that is not finite"):
        grader_metric(reward, "grader", metrics)
    with pytest.raises(InvalidRequest, match="its may_regrade gave True, not a reason"):
        may_regrade(reward, "grader", OperatorEnvironment())


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize(
    ("answer", "message", "is_left_out"),
    [
        ("raise", "raised ZeroDivisionError: division by zero", False),
        ("refuse", "raised ConnectionError: nothing listens", True),
        ("number", "gave 0.5, not a Score", False),
        ("text", "gave '1', not a score", False),
        ("extracted", "gave extracted = 5, not a text", False),
    ],
)
def test_a_score_that_a_package_fails_at_names_it(
    answer: str, message: str, is_left_out: bool
) -> None:
    judged = rewarded(trajectory(answer), {"type": "extension", "name": "Graded"})

    assert judged.reward is None
    assert judged.reward_error == f"r0: the extension 'Graded' {message}"
    assert (judged.left_out is not None) is is_left_out


@pytest.mark.usefixtures("_broken")
def test_a_score_as_a_function_gives_it_is_a_reward() -> None:
    judged = rewarded(trajectory("mapping"), {"type": "extension", "name": "Graded"})

    assert (judged.reward, judged.reward_components) == (1.0, {"r0": 1.0})


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unreadable", "cannot be imported: SyntaxError"),
        ("raising", "cannot be made: OSError: no such file"),
        ("Plain", "failed: TypeError: its config is dict"),
        ("Schemeless", "has a schema that cannot be used"),
        ("ClosedTool", "failed: KeyError: 'model'"),
    ],
)
def test_a_tool_that_cannot_be_used_is_named(name: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=f"the extension '{name}' {message}") as raised:
        call(Tool(class_name=name), {})
    assert raised.value.param == "tools[0].class_name"


@pytest.mark.usefixtures("_broken")
def test_a_call_that_a_package_fails_at_names_it() -> None:
    tool = Tool(class_name="Called")
    refused = "the extension 'Called' raised ZeroDivisionError: division by zero"

    replies = [call(tool, {}), call(tool, {"any": 1})]

    assert [reply.outcome for reply in replies] == [CallOutcome.FAILED] * 2
    assert "the extension 'Called' raised TypeError: its result is 5, not a ToolResult" in str(
        replies[0].error
    )
    assert replies[1].error == refused
    assert replies[1].cause is None
    with pytest.raises(JobFailed, match=refused):
        with_tools([tool], lambda toolbox: check_tools_respond([tool], toolbox))
