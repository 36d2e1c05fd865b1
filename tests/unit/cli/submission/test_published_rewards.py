"""Reward names and weights in the format of published training files."""

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.rewards import CallableReward, HttpReward, RetoolReward
from services.rewards.check import check_rewards
from temper.submission.published_rewards import published_rewards


def test_published_names_paths_and_urls_become_rewards() -> None:
    functions = ["retool_reward", "search_em", "shop.rewards.taste", "http://x.example/a/score?b"]

    rewards = published_rewards(functions, [1, 0.5, 2.0, -1])

    assert [reward.weight for reward in rewards] == [1.0, 0.5, 2.0, -1.0]
    assert rewards[0].reward == RetoolReward()
    assert rewards[2].reward == CallableReward(function="shop.rewards.taste")
    assert isinstance(rewards[3].reward, HttpReward)
    assert [reward.name for reward in rewards] == [
        *("retool_reward", "search_em", "shop.rewards.taste", "score-b"),
    ]


def test_acc_for_dapo_becomes_the_plain_retool_reward() -> None:
    (reward,) = published_rewards(["acc_for_dapo"], [1.0])

    assert reward.reward == RetoolReward(plain=True, equivalence="math")


def test_a_reward_listed_twice_gets_two_names() -> None:
    rewards = published_rewards(["retool_reward"] * 3, [1, 2, 3])

    check_rewards(rewards, [], [])
    assert len({reward.name for reward in rewards}) == 3


@pytest.mark.parametrize(
    ("functions", "weights", "param"),
    [
        (["retool_reward"], [], "rewards"),
        (["retool_reward"], [1.0, 2.0], "rewards"),
        (["retool_reward", "guess"], [1.0, 1.0], "rewards[1]"),
        (["os.system('x')"], [1.0], "rewards[0]"),
        (["http://"], [1.0], "rewards[0]"),
        (["retool_reward"], [float("nan")], "rewards[0]"),
        (["retool_reward"], ["1"], "rewards[0]"),
    ],
)
def test_invalid_published_rewards_are_rejected_by_field(
    functions: list[str], weights: list[float], param: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        published_rewards(functions, weights)

    assert caught.value.param == param
