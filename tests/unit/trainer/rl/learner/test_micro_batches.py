"""How a batch is packed, for any lengths and any number of processes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from services.trainer.rl.batch import TrainingBatch
from services.trainer.rl.learner.micro_batches import (
    Layout,
    TrainedTokens,
    balance,
    micro_batches,
    pack,
)
from tests.support.training.learning import drawn_batch


@given(
    st.lists(st.integers(1, 60), max_size=20),
    st.builds(Layout, st.integers(1, 100), st.booleans()),
    st.integers(1, 5),
)
def test_each_sequence_counts_once_and_processes_get_equal_shares(
    lengths: list[int], layout: Layout, processes: int
) -> None:
    plan = balance(pack(range(len(lengths)), lengths, layout), processes)
    counted = sorted(each for group, real in plan if real for each in group)
    assert counted == list(range(len(lengths)))
    assert len(plan) % processes == 0
    for group, _ in plan:
        inside = [lengths[each] for each in group]
        computed = len(group) * max(inside) if layout.padded else sum(inside)
        assert computed <= layout.limit or len(group) == 1


@given(st.integers(0, 5), st.integers(1, 3), st.integers(20, 200))
def test_micro_batches_hold_trained_tokens_and_their_predicting_states(
    seed: int, processes: int, limit: int
) -> None:
    tokens = TrainedTokens.of(drawn_batch(seed))
    expected = torch.cat(
        [torch.from_numpy(each.token_ids[each.mask]).long() for each in tokens.sequences]
    )
    found = torch.full_like(expected, -1)
    for rank in range(processes):
        for micro in micro_batches(
            tokens,
            range(len(tokens.sequences)),
            layout=Layout(limit),
            rank=rank,
            processes=processes,
            device=torch.device("cpu"),
        ):
            assert torch.equal(micro.token_ids[micro.states + 1], micro.targets)
            assert sum(micro.lengths) == len(micro.token_ids) == micro.computed
            if micro.real:
                found[micro.tokens] = micro.targets
    assert torch.equal(found, expected)


def test_training_on_the_first_token_is_refused() -> None:
    batch = drawn_batch(sequences=1)
    batch.sequences[0].mask[0] = True
    with pytest.raises(ValueError, match="first token"):
        TrainedTokens.of(TrainingBatch(batch.sequences))
