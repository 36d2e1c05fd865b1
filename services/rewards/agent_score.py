"""The reward that an agent gave its own session."""

from services.rewards.interface import RewardFailed, Sample, Score


class AgentScore:
    """The number that the agent told; see `AgentReward`."""

    async def score(self, sample: Sample) -> Score:
        """The agent's own reward."""
        agent = sample.trajectory.agent
        if agent is None or agent.reward is None:
            raise RewardFailed("the agent gave its session no reward")
        return Score(agent.reward)
