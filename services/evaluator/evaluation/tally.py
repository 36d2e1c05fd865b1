"""Running totals of an evaluation."""

from dataclasses import dataclass

from services.contracts.evaluations import EvaluationMetrics
from services.evaluator.evaluation.results import ResultRow
from services.evaluator.statistics import proportion


@dataclass
class Tally:
    """Sums over rows. They do not depend on the order in which samples were finished.

    ``seconds`` is how long the model was asked in all attempts together.
    """

    samples: int = 0
    correct: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def unit(self) -> str:
        """What is counted."""
        return "samples"

    @property
    def done(self) -> int:
        """Samples that were asked, whatever came of it."""
        return self.samples

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return self.completion_tokens

    def figures(self) -> dict[str, float]:
        """What is told while samples are asked."""
        return {"accuracy": self.accuracy, "errors": self.errors}

    @property
    def answered(self) -> int:
        """Samples with an answer, right or wrong."""
        return self.samples - self.errors

    @property
    def accuracy(self) -> float:
        """The share of right answers so far; a sample without an answer is a wrong one."""
        return self.correct / self.samples if self.samples else 0.0

    def add(self, row: ResultRow) -> None:
        """Count one row."""
        self.samples += 1
        self.correct += row.correct is True
        self.errors += row.correct is None
        self.prompt_tokens += row.prompt_tokens or 0
        self.completion_tokens += row.completion_tokens or 0

    def metrics(self) -> EvaluationMetrics:
        """The outcome; needs at least one sample."""
        share = proportion(self.correct, self.samples)
        return EvaluationMetrics(
            samples=self.samples,
            correct=self.correct,
            errors=self.errors,
            accuracy=share.mean,
            stderr=share.stderr,
            ci95=share.ci95,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            generation_seconds=self.seconds,
            tokens_per_second=self.completion_tokens / self.seconds if self.seconds else 0.0,
        )
