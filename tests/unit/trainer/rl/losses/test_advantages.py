import pytest
import torch

from services.contracts.errors import InvalidRequest
from services.contracts.training.policy_loss import AdvantageEstimator
from services.trainer.rl.losses import (
    explained_variance,
    gae_advantages,
    group_advantages,
    terminal_rewards,
    whiten,
)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_group_advantages_use_the_unbiased_standard_deviation() -> None:
    groups = torch.zeros(4, dtype=torch.long)
    grpo = group_advantages(tensor(1, 0, 0, 1), groups, AdvantageEstimator.GRPO)
    dr_grpo = group_advantages(tensor(1, 0, 0, 1), groups, AdvantageEstimator.DR_GRPO)
    torch.testing.assert_close(
        grpo, tensor(0.8660239, -0.8660239, -0.8660239, 0.8660239), rtol=0, atol=5e-8
    )
    torch.testing.assert_close(dr_grpo, tensor(0.5, -0.5, -0.5, 0.5))


@pytest.mark.parametrize(
    ("estimator", "rewards", "expected"),
    [
        # RLOO: 1 - 1/3, 0 - 2/3
        (AdvantageEstimator.RLOO, (1, 0, 0, 1), (2 / 3, -2 / 3, -2 / 3, 2 / 3)),
        # MaxRL: (r - 1/4) / (1/4)
        (AdvantageEstimator.MAX_RL, (1, 0, 0, 0), (3, -1, -1, -1)),
        (AdvantageEstimator.MAX_RL, (0, 0, 0, 0), (0, 0, 0, 0)),
    ],
)
def test_further_group_advantages(
    estimator: AdvantageEstimator, rewards: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    groups = torch.zeros(4, dtype=torch.long)

    advantages = group_advantages(tensor(*rewards), groups, estimator)

    torch.testing.assert_close(advantages, tensor(*expected))


def test_max_rl_refuses_negative_rewards() -> None:
    groups = torch.zeros(3, dtype=torch.long)

    with pytest.raises(InvalidRequest, match=r"a sample has -0\.5"):
        group_advantages(tensor(1, -0.5, -0.499), groups, AdvantageEstimator.MAX_RL)


def test_advantages_of_the_batch_know_no_groups() -> None:
    rewards, groups = tensor(1, 0, 0, 1), torch.tensor([0, 0, 1, 1])

    advantages = group_advantages(rewards, groups, AdvantageEstimator.REINFORCE_PLUS_PLUS)

    torch.testing.assert_close(
        advantages, tensor(0.8660239, -0.8660239, -0.8660239, 0.8660239), rtol=0, atol=5e-8
    )


def test_group_advantages_do_not_depend_on_order() -> None:
    rewards = tensor(1, 5, 0, 7, 0, 1)
    groups = torch.tensor([8, 3, 8, 3, 8, 8])
    advantages = group_advantages(rewards, groups, AdvantageEstimator.GRPO)
    high = 1 / (2**0.5 + 1e-6)
    torch.testing.assert_close(advantages[[1, 3]], tensor(-high, high))
    torch.testing.assert_close(
        advantages[[0, 2, 4, 5]], tensor(1, -1, -1, 1) * 0.8660239, rtol=0, atol=5e-8
    )


def test_equal_rewards_or_single_samples_have_zero_advantage() -> None:
    rewards, groups = tensor(0.3, 0.3, 0.3, 9), torch.tensor([0, 0, 0, 1])
    for estimator in set(AdvantageEstimator) - {AdvantageEstimator.REINFORCE_PLUS_PLUS}:
        advantages = group_advantages(rewards, groups, estimator)
        torch.testing.assert_close(advantages, torch.zeros(4, dtype=torch.float64))


def test_gae_of_one_response() -> None:
    advantages, returns = gae_advantages(
        tensor(0, 0, 1),
        tensor(0.5, 0.6, 0.7),
        torch.zeros(3, dtype=torch.long),
        gamma=1.0,
        lambda_=0.95,
    )
    torch.testing.assert_close(advantages, tensor(0.46575, 0.385, 0.3))
    torch.testing.assert_close(returns, tensor(0.96575, 0.985, 1.0))


def test_gae_of_ragged_responses() -> None:
    one, _ = gae_advantages(
        tensor(0, 2), tensor(0.1, 0.4), torch.tensor([0, 0]), gamma=0.9, lambda_=0.8
    )
    both, _ = gae_advantages(
        tensor(5, 0, 2, 0, 0, 1),
        tensor(3, 0.1, 0.4, 0.5, 0.6, 0.7),
        torch.tensor([0, 2, 2, 3, 3, 3]),
        gamma=0.9,
        lambda_=0.8,
    )
    torch.testing.assert_close(both[1:3], one)
    torch.testing.assert_close(both[0], tensor(2)[0])


def test_whitened_values_have_mean_0_and_variance_1() -> None:
    values = whiten(tensor(3, 5, 10, -2))
    torch.testing.assert_close(values.mean(), tensor(0)[0])
    torch.testing.assert_close(values.std(), tensor(1)[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(whiten(tensor(4)), tensor(0))


def test_reward_goes_to_the_last_trained_token() -> None:
    spread = terminal_rewards(tensor(3, 9, -1), torch.tensor([2, 0, 1]))
    torch.testing.assert_close(spread, tensor(0, 3, -1))


def test_explained_variance_of_a_critic() -> None:
    returns = tensor(0, 1, 2, 3)
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(tensor(5, 5, 5, 5), returns) == 0.0
    assert explained_variance(returns, tensor(1, 1, 1, 1)) == 0.0
