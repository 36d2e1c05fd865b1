"""What lookup drafts would save: a replay of vLLM's n-gram drafter over finished responses.

A draft depends on the tokens before it alone, and a drafted token is accepted with the model's own
probability of it, which is that of having sampled it. So the tokens of a response, sampled without
drafts, say which drafts would have been accepted in an engine that made them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from services.contracts.engine import Drafts


@dataclass
class Replay:
    """Sampled tokens, and the forward passes of their sequences that would have given them."""

    tokens: int = 0
    passes: int = 0

    @property
    def accepted_length(self) -> float:
        """Tokens of a sequence per forward pass; 1 if no draft is accepted."""
        return self.tokens / self.passes if self.passes else 1.0

    def add(
        self, drafts: Drafts, prompt: Sequence[int], response: Sequence[int], mask: Sequence[bool]
    ) -> None:
        """Replay the tokens of a response that the model sampled, those of ``mask``; the others
        are read."""
        known, draft, is_open = Lookup(drafts, prompt), list[int](), False
        for token, sampled in zip(response, mask, strict=True):
            if not sampled:
                is_open = False
            else:
                if not is_open:
                    draft, is_open = known.draft(), True
                    self.passes += 1
                self.tokens += 1
                is_open = bool(draft) and draft.pop(0) == token
            known.append(token)


class Lookup:
    """Drafts what followed the first of the earlier occurrences of the last tokens, of the longest
    match, as ``vllm.v1.spec_decode.ngram_proposer`` of vLLM 0.32 does."""

    def __init__(self, drafts: Drafts, prompt: Sequence[int]) -> None:
        self._count = drafts.tokens
        least, most = drafts.matches
        self._lengths = range(most, least - 1, -1)
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        for token in prompt:
            self.append(token)

    def append(self, token: int) -> None:
        """Read a token."""
        end = len(self._tokens)
        for length in self._lengths:
            if length <= end:
                self._ends.setdefault(tuple(self._tokens[end - length :]), end)
        self._tokens.append(token)

    def draft(self) -> list[int]:
        """The tokens that would be drafted now; none without a match."""
        for length in self._lengths:
            end = self._ends.get(tuple(self._tokens[-length:]))
            if end is not None and length <= len(self._tokens):
                return self._tokens[end : end + self._count]
        return []
