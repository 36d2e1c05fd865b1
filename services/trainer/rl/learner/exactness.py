"""The check of ``exact_on_policy``: one differing bit ends the training."""

from torch import Tensor

from services.contracts.errors import TemperError
from services.trainer.rl.learner.micro_batches import TrainedTokens
from services.trainer.rl.learner.mismatch import sampled_tokens


class NotOnPolicy(TemperError):
    """Learner and engine gave a sampled token different log-probabilities."""

    code = "not_on_policy"


def check_exactness(log_probs: Tensor, tokens: TrainedTokens) -> None:
    """Raise `NotOnPolicy` if ``log_probs`` (m,), the learner's before an update, are not exactly
    those that the engine sampled with; its message names the first token that differs."""
    own, sampler = log_probs.cpu(), tokens.sampler_log_probs
    sampled = sampled_tokens(tokens)
    differs = sampled & ~(own == sampler)  # NaN differs from everything
    if not differs.any():
        return
    first = int(differs.nonzero()[0])
    sequence = int(tokens.sequence_of[first])
    place = int(tokens.positions[sequence][first - int(tokens.starts[sequence])])
    token = int(tokens.sequences[sequence].token_ids[place])
    largest = float((own - sampler).abs()[differs].max())
    raise NotOnPolicy(
        f"exact_on_policy: learner and engine differ in {int(differs.sum())} of "
        f"{int(sampled.sum())} sampled tokens, by {largest:.3g} nats at most; the first is token "
        f"{token} at place {place} of sequence {sequence}: {float(own[first])!r} and "
        f"{float(sampler[first])!r}",
        param="method",
    )
