"""What a vLLM server has generated and drafted, from its metrics in Prometheus' format."""

from dataclasses import dataclass

_GENERATED = "vllm:generation_tokens_total"
_DRAFTED = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"


@dataclass(frozen=True)
class EngineCounters:
    """Tokens since an engine's start: those of all sequences, those that were drafted for them, and
    the drafted ones that the model accepted."""

    generated: float = 0.0
    drafted: float = 0.0
    accepted: float = 0.0

    def __add__(self, other: "EngineCounters") -> "EngineCounters":
        return EngineCounters(
            self.generated + other.generated,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
        )

    def since(self, before: "EngineCounters") -> "EngineCounters":
        """What was added; an engine that was restarted in between counts from 0."""
        if self.generated < before.generated or self.drafted < before.drafted:
            return self
        return EngineCounters(
            self.generated - before.generated,
            self.drafted - before.drafted,
            self.accepted - before.accepted,
        )

    @property
    def accepted_length(self) -> float:
        """Tokens of a sequence per forward pass: 1 without drafts; 0 if nothing was generated."""
        passes = self.generated - self.accepted
        return self.generated / passes if passes > 0 else 0.0

    @property
    def acceptance_rate(self) -> float:
        """The share of drafted tokens that were accepted; 0 without any."""
        return self.accepted / self.drafted if self.drafted else 0.0


def engine_counters(exposition: str) -> EngineCounters:
    """The counters in a server's metrics, over all its engines."""
    return EngineCounters(
        _total(exposition, _GENERATED), _total(exposition, _DRAFTED), _total(exposition, _ACCEPTED)
    )


def _total(exposition: str, name: str) -> float:
    lines = (line for line in exposition.splitlines() if line.startswith(name + "{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)
