"""A reward that a language model gives by a prompt of the user's."""

from services.contracts.rewards import JudgeReward
from services.rewards.component import Score
from services.rewards.graders.template import fill_in
from services.rewards.judging import Judge, JudgeRequest, read_number
from services.rewards.sample import Sample


class JudgeScore:
    """The score in the answer to the filled-in prompt."""

    def __init__(self, settings: JudgeReward, judge: Judge) -> None:
        self._settings = settings
        self._judge = judge

    async def score(self, sample: Sample) -> Score:
        """Ask the judge."""
        settings = self._settings
        messages = [{"role": "user", "content": fill_in(settings.prompt, sample)}]
        if settings.system_prompt is not None:
            messages.insert(0, {"role": "system", "content": settings.system_prompt})
        answer, tokens = await self._judge.ask(
            JudgeRequest(
                model=self._judge.model,
                messages=messages,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
            )
        )
        low, high = settings.range
        score = read_number(answer, "score", low, high)
        return Score((score - low) / (high - low) if settings.normalise else score, tokens=tokens)
