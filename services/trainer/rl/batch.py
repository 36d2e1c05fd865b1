"""Token sequences to train on, and the batch file through which they reach the learner."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

FORMAT = 3


@dataclass(frozen=True)
class TopK:
    """A teacher's most probable tokens at each position: ``ids`` and natural ``log_probs``, both (n
    - 1, k); row i is the distribution of token i + 1."""

    ids: NDArray[np.int32]
    log_probs: NDArray[np.float32]


@dataclass(frozen=True)
class TrainingSequence:
    """Prompt and response of one sample; all arrays have shape (n,).

    ``mask`` is true on the tokens to train on, written by the policy (or a teacher, or the data);
    never on the first. ``sampler_log_probs`` are 0 and ``policy_versions`` -1 where the policy
    sampled nothing. ``reward`` is the whole reward, penalties included. Samples of one prompt share
    a ``group``; sequences of one sample, as of a session of an agent that took up an earlier turn
    again, its number ``sample``, its reward and its group. -1: a sample of its own.
    """

    token_ids: NDArray[np.int32]
    mask: NDArray[np.bool_]
    sampler_log_probs: NDArray[np.float32]
    policy_versions: NDArray[np.int32]
    reward: float = 0.0
    group: int = 0
    sample: int = -1
    teacher: TopK | None = None


@dataclass(frozen=True)
class TrainingBatch:
    """The sequences of one update."""

    sequences: tuple[TrainingSequence, ...]

    def save(self, path: Path) -> None:
        """Write the batch atomically."""
        arrays = {
            "format": np.int64(FORMAT),
            "lengths": np.array([len(s.token_ids) for s in self.sequences], np.int64),
            "token_ids": _joined([s.token_ids for s in self.sequences], np.int32),
            "mask": _joined([s.mask for s in self.sequences], np.bool_),
            "sampler_log_probs": _joined([s.sampler_log_probs for s in self.sequences], np.float32),
            "policy_versions": _joined([s.policy_versions for s in self.sequences], np.int32),
            "rewards": np.array([s.reward for s in self.sequences], np.float64),
            "groups": np.array([s.group for s in self.sequences], np.int64),
            "samples": np.array([s.sample for s in self.sequences], np.int64),
        }
        for index, sequence in enumerate(self.sequences):
            if sequence.teacher is not None:
                arrays[f"teacher_ids_{index}"] = sequence.teacher.ids
                arrays[f"teacher_log_probs_{index}"] = sequence.teacher.log_probs
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]  # numpy's stub takes a name for its flag
        partial = path.with_suffix(".partial")
        partial.write_bytes(buffer.getbuffer())
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a batch; raises ValueError for another format."""
        with np.load(path, allow_pickle=False) as arrays:
            if int(arrays["format"]) != FORMAT:
                raise ValueError(f"{path} has format {int(arrays['format'])}, not {FORMAT}")
            ends = np.cumsum(arrays["lengths"])[:-1]
            parts = zip(
                np.split(arrays["token_ids"], ends),
                np.split(arrays["mask"], ends),
                np.split(arrays["sampler_log_probs"], ends),
                np.split(arrays["policy_versions"], ends),
                arrays["rewards"].tolist(),
                arrays["groups"].tolist(),
                arrays["samples"].tolist(),
                [_teacher(arrays, index) for index in range(len(arrays["rewards"]))],
                strict=True,
            )
            return cls(tuple(TrainingSequence(*part) for part in parts))


@dataclass(frozen=True)
class TokenValues:
    """What an update computes for the trained tokens of its batch, (m, 3) float32: the natural
    log-probability before the update, the entropy in nats, and the advantage.

    The log-probability is NaN where it was first computed after an optimizer step: with ratios to
    the sampler, for tokens behind the first mini-batch. The entropy is the mean over the passes of
    the update.
    """

    values: NDArray[np.float32]

    def save(self, batch: Path) -> None:
        """Write them beside the batch file."""
        np.save(_beside(batch), self.values, allow_pickle=False)

    @classmethod
    def take(cls, batch: Path) -> Self | None:
        """Read and delete the values beside a batch file; None if the update computed none."""
        path = _beside(batch)
        try:
            values = np.load(path, allow_pickle=False)
        except FileNotFoundError:
            return None
        path.unlink()
        return cls(values)

    def split(self, lengths: Sequence[int]) -> list[NDArray[np.float32]]:
        """Split into one part per sequence, given each sequence's number of trained tokens."""
        return np.split(self.values, np.cumsum(lengths)[:-1])


def _beside(batch: Path) -> Path:
    return batch.with_suffix(".values.npy")


def _joined(arrays: Sequence[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *arrays])


def _teacher(arrays: "np.lib.npyio.NpzFile", index: int) -> TopK | None:
    name = f"teacher_ids_{index}"
    if name not in arrays:
        return None
    return TopK(arrays[name], arrays[f"teacher_log_probs_{index}"])
