"""The requests and the table of the comparison of recipes."""

from benchmarks.rl.recipes import RECIPES, Curve, course, request, summary
from services.contracts.jobs import Event
from services.contracts.training.online import ReinforcementHyperparameters


def test_recipes_differ_in_their_losses_at_equal_budgets() -> None:
    found = []
    for recipe in RECIPES:
        method = request("model", "file-1", recipe, steps=3, seed=1).method
        assert method is not None
        assert method.reinforcement is not None
        found.append(method.reinforcement.hyperparameters)

    def budget(settings: ReinforcementHyperparameters) -> object:
        sampled = (settings.steps, settings.prompts_per_step, settings.samples_per_prompt)
        return sampled, settings.mini_batches, settings.dynamic_sampling, settings.optimizer

    assert all(budget(each) == budget(found[0]) for each in found)
    assert len({each.loss.model_dump_json() for each in found}) == len(RECIPES)


def test_the_table_has_means_and_intervals_over_seeds() -> None:
    interval = (0.3, 0.5)
    curves = [
        Curve("grpo", 1, 0.4, interval, 0.6, interval, {1: 0.2, 2: 0.4}, 1_200),
        Curve("grpo", 2, 0.4, interval, 0.8, interval, {1: 0.4, 2: 0.6}, 80),
    ]

    lines = summary(curves)

    rates = "40.0% (30.0% to 50.0%) -> 60.0% (30.0% to 50.0%)"
    assert lines[0] == f"grpo, seed 1: {rates}, 1,200 prompts drawn"
    # Student's quantile of one degree of freedom is 12.706; the standard error is 0.1.
    assert lines[2] == "grpo: mean gain +0.300 (-0.971 to +1.571)"
    assert [line.split(maxsplit=1) for line in lines[3:]] == [
        ["1", "+0.300 (-0.971 to +1.571)"],
        ["2", "+0.500 (-0.771 to +1.771)"],
    ]
    assert summary(curves[:1])[1] == "grpo: mean gain +0.200"


def test_the_course_of_a_training_is_that_of_all_its_rollouts() -> None:
    def event(step: int, **data: float) -> Event:
        shown = {"id": "event", "created_at": 0, "level": "info", "message": "", "type": "metrics"}
        return Event.model_validate({**shown, "data": {"step": step, **data}})

    rewards, drawn = course(
        [
            event(0, eval_reward=0.1),
            event(1, reward=0.5, rollout_reward=0.2, prompts_drawn=16.0),
            event(2, reward=0.5, rollout_reward=0.9, prompts_drawn=30.0),
        ]
    )

    assert (rewards, drawn) == ({1: 0.2, 2: 0.9}, 30)
