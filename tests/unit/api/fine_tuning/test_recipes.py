"""Published recipes of online training: resolved, shown and read again."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from services.api.fine_tuning.online import online_warnings
from services.contracts.errors import InvalidRequest
from services.contracts.training.effects import check_effects
from services.contracts.training.fine_tuning import CreateFineTuningJob, Method
from services.contracts.training.objectives import Objective, unread_fields
from services.contracts.training.online import PpoHyperparameters, ReinforcementHyperparameters
from services.contracts.training.policy_loss import PolicyLoss
from services.contracts.training.recipes import PpoRecipe, Recipe
from services.contracts.validation import first_fault

Settings = type[ReinforcementHyperparameters | PpoHyperparameters]
METHODS: dict[str, Settings] = {
    "reinforcement": ReinforcementHyperparameters,
    "ppo": PpoHyperparameters,
}
PRESETS = [("reinforcement", each.value) for each in Recipe]
PRESETS += [("ppo", each.value) for each in PpoRecipe]
POSITIVE = {"name": "right", "reward": {"type": "exact"}}


def test_a_recipe_is_its_settings_and_given_ones_count_more() -> None:
    given = {"recipe": "dapo", "prompts_per_step": 8, "loss": {"clip_high": 0.3}}
    dapo = ReinforcementHyperparameters.model_validate(given)

    assert (dapo.prompts_per_step, dapo.samples_per_prompt, dapo.mini_batches) == (8, 16, 16)
    assert (dapo.loss.clip_low, dapo.loss.clip_high, dapo.loss.tis_cap) == (0.2, 0.3, None)
    assert dapo.dynamic_sampling is not None
    assert dapo.overlong is not None
    assert dapo.overlong.buffer == 4096
    assert dapo.sampling.max_tokens == 20_480
    again = ReinforcementHyperparameters.model_validate(dapo.model_dump(mode="json"))
    assert again == dapo


def method(name: str, settings: Any, *rewards: dict[str, Any]) -> Method:
    """A method with settings, and one reward that is not negative unless others are given."""
    body = {"rewards": list(rewards) or [POSITIVE], "hyperparameters": settings}
    return Method.model_validate({"type": name, name: body})


@pytest.mark.parametrize(("name", "recipe"), PRESETS)
def test_every_recipe_is_a_valid_request(name: str, recipe: str) -> None:
    settings = METHODS[name].model_validate({"recipe": recipe})

    assert settings.recipe == recipe
    plain = settings.model_dump(mode="json", exclude={"recipe"})
    assert METHODS[name].model_validate({**plain, "recipe": recipe}) == settings


def nulls(model: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of the fields that can be null, at any depth."""
    for name, field in model.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        if type(None) in kinds and name != "recipe":
            yield (*path, name)
        for each in kinds:
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from nulls(each, (*path, name))


@pytest.mark.parametrize(("name", "recipe"), PRESETS)
def test_a_null_survives_every_reading_of_a_recipe(name: str, recipe: str) -> None:
    for path in nulls(METHODS[name]):
        given: Any = None
        for step in reversed(path):
            given = {step: given}
        try:
            asked = method(name, {**given, "recipe": recipe})
        except ValidationError:  # a nested object of which other fields are required
            continue

        request = CreateFineTuningJob(model="m", training_file="file-1", method=asked)
        stored = CreateFineTuningJob.model_validate(request.model_dump(mode="json")).method
        sent = CreateFineTuningJob.model_validate_json(request.model_dump_json(exclude_unset=True))
        for again in (Method.model_validate(asked.resolved()), stored, sent.method):
            assert again == asked
            value: Any = again.resolved()[name]["hyperparameters"]
            for step in path:
                value = value[step] if value is not None else None
            assert value is None


def test_a_recipe_of_ppo_belongs_to_the_method_ppo() -> None:
    ppo = PpoHyperparameters.model_validate({"recipe": "ppo", "loss": {"entropy_bonus": 0.01}})

    assert (ppo.epochs, ppo.gamma, ppo.gae_lambda) == (4, 1.0, 0.95)
    assert (ppo.loss.clip_low, ppo.loss.clip_high, ppo.loss.tis_cap) == (0.2, 0.2, None)
    assert ppo.loss.kl is not None
    assert (ppo.loss.kl.to, ppo.loss.kl.coefficient) == ("reward", 0.05)
    for name, recipe, other in (("reinforcement", "ppo", "ppo"), ("ppo", "dapo", "reinforcement")):
        with pytest.raises(ValidationError) as refused:
            METHODS[name].model_validate({"recipe": recipe})
        (error,) = refused.value.errors()
        assert error["loc"] == ("recipe",)
        assert f"{recipe} is a recipe of the method {other}" in error["msg"]


@pytest.mark.parametrize(
    ("name", "recipe", "known"),
    [("reinforcement", "grop", "dr_grpo"), ("ppo", "pop", "ppo"), ("reinforcement", [], "dapo")],
)
def test_an_unknown_recipe_is_refused_with_the_known_ones(
    name: str, recipe: Any, known: str
) -> None:
    with pytest.raises(ValidationError, match=known):
        METHODS[name].model_validate({"recipe": recipe})


def test_a_recipe_fills_in_only_what_another_objective_reads() -> None:
    given = {"recipe": "cispo", "loss": {"objective": "sapo"}}
    loss = ReinforcementHyperparameters.model_validate(given).loss

    assert (loss.objective, loss.tis_cap, loss.clip_high) == ("sapo", None, 0.28)


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(("name", "recipe"), PRESETS)
def test_every_recipe_goes_with_every_objective(
    name: str, recipe: str, objective: Objective
) -> None:
    own = {"extension": "own"} if objective is Objective.EXTENSION else {}
    loss = {"objective": objective.value, **own}

    asked = method(name, {"recipe": recipe, "loss": loss})

    assert asked.online is not None
    check_effects(asked.online)
    again = Method.model_validate(asked.resolved())
    assert again == asked
    settings = asked.resolved()[name]["hyperparameters"]["loss"]
    default = METHODS[name]().loss.model_dump(mode="json")
    for unread in unread_fields(objective):
        top = unread.partition(".")[0]
        assert settings[top] == default[top]


@pytest.mark.parametrize("objective", [each for each in Objective if each is not Objective.CLIP])
@pytest.mark.parametrize("recipe", [None, *Recipe])
def test_a_ratio_that_an_objective_does_not_read_is_refused_by_name(
    recipe: str | None, objective: Objective
) -> None:
    loss = {"objective": objective.value, "ratio": "sequence", "extension": "own"}

    with pytest.raises(ValidationError, match="has ratios of tokens only") as refused:
        ReinforcementHyperparameters.model_validate({"recipe": recipe, "loss": loss})
    assert first_fault(refused.value).field == "loss.ratio"


@pytest.mark.parametrize(("name", "recipe"), PRESETS)
def test_a_ratio_that_a_recipe_does_not_average_as_gspo_is_named(name: str, recipe: str) -> None:
    loss = {"objective": "clip", "ratio": "sequence"}
    by_sequence = {**loss, "aggregation": "seq-mean-token-mean"}
    assert METHODS[name].model_validate({"recipe": recipe, "loss": by_sequence})

    own = METHODS[name].model_validate({"recipe": recipe}).loss.aggregation
    if own.value == "seq-mean-token-mean":
        assert METHODS[name].model_validate({"recipe": recipe, "loss": loss}).loss.ratio
        return
    with pytest.raises(ValidationError, match=f"the recipe {recipe} has {own.value}") as refused:
        METHODS[name].model_validate({"recipe": recipe, "loss": loss})
    assert first_fault(refused.value).field == "loss.ratio"


def test_a_recipe_fills_in_what_is_not_given_of_an_object() -> None:
    given = ReinforcementHyperparameters(recipe=Recipe.GSPO, loss=PolicyLoss(entropy_bonus=0.01))

    assert (given.loss.ratio, given.loss.clip_low) == ("sequence", 3e-4)
    assert given.loss.entropy_bonus == 0.01


@pytest.mark.parametrize("objective", [None, *Objective])
@pytest.mark.parametrize(("name", "recipe"), PRESETS)
def test_a_recipe_corrects_for_the_weights_that_sampled(
    name: str, recipe: str, objective: Objective | None
) -> None:
    own = {} if objective is None else {"objective": objective.value, "extension": "own"}
    stale = {"recipe": recipe, "max_staleness": 1}

    def read(loss: dict[str, Any], **settings: Any) -> tuple[Any, list[str]]:
        asked = method(name, {**stale, "loss": {**own, **loss}, **settings})
        request = CreateFineTuningJob(model="m", training_file="file-1", method=asked)
        stored = CreateFineTuningJob.model_validate(request.model_dump(mode="json"))
        assert stored.method == asked
        assert asked.online is not None
        return getattr(asked, name).hyperparameters.loss, online_warnings(request)

    corrected, warnings = read({})
    assert (corrected.anchor, corrected.tis_cap, warnings) == ("sampler", None, [])
    capped, warnings = read({"anchor": "old", "tis_cap": 2.0})
    assert (capped.anchor, capped.tis_cap, warnings) == ("old", 2.0, [])
    for off in ({"anchor": "old"}, {"anchor": "old", "tis_cap": None}):
        loss, (warning,) = read(off)
        assert (loss.anchor, loss.tis_cap) == ("old", None)
        assert "nothing corrects for max_staleness 1" in warning
        assert read({**off, "token_mask": [0.5, 5.0]})[1] == []
        assert read(off, max_staleness=0)[1] == []


@pytest.mark.parametrize(
    ("loss", "is_corrected"),
    [({}, True), ({"tis_cap": None}, False), ({"tis_cap": None, "off_policy_mask": 0.1}, False)],
)
def test_a_loss_without_a_recipe_is_warned_of_too(loss: dict[str, Any], is_corrected: bool) -> None:
    asked = method("reinforcement", {"max_staleness": 2, "loss": loss})
    request = CreateFineTuningJob(model="m", training_file="file-1", method=asked)

    assert (online_warnings(request) == []) is is_corrected


def test_cispo_takes_the_steps_in_which_ratios_differ() -> None:
    assert ReinforcementHyperparameters.model_validate({"recipe": "cispo"}).mini_batches == 16


@pytest.mark.parametrize(
    ("settings", "rewards", "message"),
    [
        ({"overlong": {}}, [], "overlong must be null"),
        ({"recipe": "dapo"}, [], "overlong must be null"),
        ({"recipe": "rloo"}, [], "loss.kl.to must be loss"),
        ({}, [{"weight": -0.1, "reward": {"type": "exact"}}], "negative weight"),
        ({}, [{"reward": {"type": "retool"}}], "retool, which scores wrong answers below 0"),
        ({}, [{"reward": {"type": "search_em", "format_score": -1.0}}], "format_score below 0"),
        ({}, [{"reward": {"type": "reward_model", "model": "m"}}], "set sigmoid"),
        (
            {},
            [{"reward": {"type": "judge", "model": "j", "prompt": "p", "range": [-1, 1]}}],
            "set normalize",
        ),
    ],
)
def test_max_rl_is_refused_where_rewards_can_be_negative(
    settings: dict[str, Any], rewards: list[dict[str, Any]], message: str
) -> None:
    named = [{**reward, "name": "other"} for reward in rewards]
    asked = method("reinforcement", {"advantage": "max_rl", **settings}, POSITIVE, *named)
    assert asked.online is not None
    with pytest.raises(InvalidRequest, match=message) as refused:
        check_effects(asked.online)
    field = message.partition(" ")[0]
    assert refused.value.param == ("rewards[1]" if named else f"hyperparameters.{field}")


def test_max_rl_takes_rewards_that_are_not_negative() -> None:
    judge = {"type": "judge", "model": "j", "prompt": "p", "range": [-1, 1], "normalize": True}
    rewards: list[dict[str, Any]] = [
        {"name": "judge", "reward": judge},
        {"name": "model", "reward": {"type": "reward_model", "model": "m", "sigmoid": True}},
        {"name": "held-out", "weight": 0, "reward": {"type": "retool"}},
    ]
    given = {"recipe": "dapo", "overlong": None, "advantage": "max_rl"}
    asked = method("reinforcement", given, *rewards)
    assert asked.online is not None
    check_effects(asked.online)
