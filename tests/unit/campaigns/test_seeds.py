"""Several seeds of an experiment: when there are, what varies, and what is compared."""

from collections.abc import Callable
from typing import Any

import pytest

from services.campaigns.data.benchmark import KnownItems
from services.campaigns.loop import advance
from services.campaigns.run.records import Attempt, Code, Measurement
from services.campaigns.run.signals import Waiting
from services.campaigns.steps.acceptance import compare_measurements
from services.campaigns.steps.measurement import parts_of
from services.campaigns.steps.running import run_experiment
from services.contracts.campaigns.loops import Failure, StepName
from tests.support.campaigns.gateway import GatewayOfTest
from tests.support.campaigns.run import SEARCH_ITEMS, StoredCampaign, measured

TRAIN, SEARCH, FINAL = "1.running.train", "1.running.evaluate.search", "1.running.evaluate.final"


class Experiment:
    """The running step of loop 1, taken by a new process each time."""

    def __init__(self, campaign: StoredCampaign, **request: Any) -> None:
        self.campaign = campaign
        self.gateway = GatewayOfTest(campaign)
        campaign.create(**request)
        campaign.step(0, StepName.BASE, measured("base", 0))
        campaign.finished_script(1)
        self._claim = campaign.claim()

    def go_on(self) -> Attempt | None:
        """Its result; None while it waits."""
        run = self.campaign.run_of(self._claim)
        run.gateway = self.gateway
        parts = parts_of(run)

        def do() -> Attempt:
            return run_experiment(run, Code(script="pass"), parts, KnownItems(parts))

        try:
            return run.step(1, StepName.RUNNING, Attempt, do)
        except Waiting:
            return None

    def first_seed(self, right: int = 4, hours: float = 1.0) -> Attempt | None:
        """Take the step until the first seed has scores, and go on."""
        assert self.go_on() is None
        self.gateway.trained(TRAIN, hours)
        assert self.go_on() is None
        self.evaluated("", right)
        return self.go_on()

    def evaluated(self, seed: str, right: int) -> None:
        """End the evaluations of a seed."""
        self.gateway.evaluated(f"{SEARCH}{seed}", right)
        self.gateway.evaluated(f"{FINAL}{seed}", 1)


@pytest.fixture
def begin(campaign: StoredCampaign) -> Callable[..., Experiment]:
    def make(**request: Any) -> Experiment:
        return Experiment(campaign, **request)

    return make


def measurement(attempt: Attempt | None) -> Measurement:
    assert attempt is not None
    assert attempt.failed is None
    assert attempt.measurement is not None
    return attempt.measurement


def test_further_seeds_are_trained_at_once_and_scores_are_their_means(
    begin: Callable[..., Experiment],
) -> None:
    one = begin(seeds={"most": 3})

    assert one.first_seed(right=3) is None
    assert one.gateway.unfinished == {f"{TRAIN}.seed-1", f"{TRAIN}.seed-2"}
    one.gateway.trained(f"{TRAIN}.seed-2")
    assert one.go_on() is None
    one.gateway.trained(f"{TRAIN}.seed-1")
    assert one.go_on() is None
    one.evaluated(".seed-1", 6)
    assert one.go_on() is None
    one.evaluated(".seed-2", 0)
    found = measurement(one.go_on())

    trainings = [name for name in one.gateway.bodies if "train" in name]
    assert [one.gateway.bodies[name]["seed"] for name in trainings] == [0, 1, 2]
    assert len(one.gateway.requests) == len(set(one.gateway.requests)) == 9, "no job twice"
    assert found.model == f"ft:{TRAIN}", "not the one with the best score"
    assert [each.model for each in found.seeds] == [f"ft:{name}" for name in trainings]
    thirds = [round(3 * score) for score in found.search.values() if isinstance(score, float)]
    assert thirds == [2, 2, 2, 1, 1, 1, *[0] * (len(thirds) - 6)]
    assert "Loop 1: 3 of 3 seeds" in one.campaign.events()


def test_there_is_one_seed_unless_the_user_asks_for_more(begin: Callable[..., Experiment]) -> None:
    assert measurement(begin().first_seed()).seeds == []


def test_a_benchmark_that_is_not_small_has_one_seed(begin: Callable[..., Experiment]) -> None:
    one = begin(seeds={"most": 3, "below_items": 5})

    assert measurement(one.first_seed()).seeds == []
    assert len(one.gateway.requests) == 3


@pytest.mark.parametrize("limit", ["gpu_hours", "hours"])
def test_seeds_take_no_more_than_their_share_of_the_budget(
    begin: Callable[..., Experiment], limit: str
) -> None:
    one = begin(seeds={"most": 5, "budget_share": 0.5}, gpus=1, budget={limit: 5.5, "loops": 2})

    assert one.first_seed(hours=1.0) is None
    assert one.gateway.unfinished == {f"{TRAIN}.seed-1", f"{TRAIN}.seed-2"}, "a half of 4.5 or 5.5"
    for seed in (1, 2):
        one.gateway.trained(f"{TRAIN}.seed-{seed}", hours=0.5)
        assert one.go_on() is None, "what the first seeds took does not change the number"
        one.evaluated(f".seed-{seed}", 4)
    found = measurement(one.go_on())

    assert (
        found.seeds_note
        == f"3 of 5 seeds: more would take over 50% of what the limit of {limit} leaves"
    )


def test_a_budget_that_ends_leaves_the_seeds_that_have_scores(
    begin: Callable[..., Experiment],
) -> None:
    one = begin(seeds={"most": 3, "budget_share": 1.0}, gpus=1, budget={"gpu_hours": 10})

    assert one.first_seed(hours=1.0) is None
    one.gateway.trained(f"{TRAIN}.seed-1")
    assert one.go_on() is None
    one.evaluated(".seed-1", 4)
    one.campaign.started(1.0, f"{TRAIN}.seed-2")  # it has run for years
    found = measurement(one.go_on())

    assert [each.seed for each in found.seeds] == [0, 1]
    assert "limit of gpu_hours was reached before seed 2" in str(found.seeds_note)


def test_a_seed_that_the_environment_failed_is_left_out(begin: Callable[..., Experiment]) -> None:
    one = begin(seeds={"most": 2})

    assert one.first_seed(right=4) is None
    one.gateway.failed(f"{TRAIN}.seed-1", "worker_lost")
    found = measurement(one.go_on())

    assert list(found.search.values()).count(1.0) == 4
    assert "1 of 2 seeds: seed 1: job" in str(found.seeds_note)


def test_settings_that_diverge_with_another_seed_fail_the_loop(
    begin: Callable[..., Experiment],
) -> None:
    one = begin(seeds={"most": 2})

    assert one.first_seed() is None
    one.gateway.failed(f"{TRAIN}.seed-1", "diverged")
    attempt = one.go_on()

    assert attempt is not None
    assert attempt.failed is not None
    assert attempt.failed.failure is Failure.CONFIG
    assert attempt.failed.message.startswith("seed 1: ")


@pytest.mark.parametrize(("temperature", "seeds"), [(0.0, [4]), (0.7, [4, 6, 8])])
def test_the_base_model_has_as_many_seeds_as_its_answers_differ(
    campaign: StoredCampaign, temperature: float, seeds: list[int]
) -> None:
    sampling = {"temperature": temperature, "seed": 4}
    samples = 2 if temperature else 1
    campaign.create(seeds={"most": 3}, sampling=sampling, samples_per_item=samples)
    gateway, claim = GatewayOfTest(campaign), campaign.claim()
    for _ in seeds:
        run = campaign.run_of(claim)
        run.gateway = gateway
        with pytest.raises(Waiting):
            advance(run)
        for name in gateway.unfinished:
            gateway.evaluated(name, 2)

    asked = [
        body["sampling"]["seed"]
        for name, body in gateway.bodies.items()
        if "evaluate.search" in name
    ]
    assert asked == seeds, "no two samples of an item share a seed"


def test_pooled_seeds_decide_what_one_seed_cannot() -> None:
    """Each of four seeds gains other items; items stay the clusters."""
    base = Measurement.model_validate({**measured("base", 0), "shares": True})
    one = Measurement.model_validate({**measured("ft", 3), "shares": True})
    half = {str(item): 0.5 for item in range(SEARCH_ITEMS)}
    seeds = [{"seed": seed, **measured("ft", 5)} for seed in range(4)]
    four = one.model_validate({**measured("ft", 5), "search": half, "shares": True, "seeds": seeds})

    alone = compare_measurements(one, base, higher_is_better=True)
    pooled = compare_measurements(four, base, higher_is_better=True)

    assert not alone.improves, "3 of 10 items may be chance"
    assert pooled.improves
    assert (pooled.samples, pooled.seeds, pooled.best_seeds) == (10, 4, 1)
