"""Rollouts of a real engine against one forward pass of the same model, and its chat template.

A tiny model is overfitted to a few conversations, so that it samples calls. vLLM samples
the rollouts; transformers then computes the probability of every sampled token in one float32
pass over each trajectory.
"""

from itertools import compress

import pytest

from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.rollouts.chat.conversations import ChatTokens
from tests.integration.rollout.memorized_rollouts import END, VERSION, Sampled, sample_all_cases

pytestmark = pytest.mark.runtime

LARGEST_DIFFERENCE = 1e-3


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Sampled:
    return sample_all_cases(tmp_path_factory.mktemp("model"))


def test_log_probs_match_one_forward_pass_over_the_trajectory(
    played: Sampled,
) -> None:
    differences = [
        abs(sampler - model)
        for each in played.all()
        for mask, sampler, model in zip(
            each.response_mask, each.log_probs, played.log_probs[each.id], strict=True
        )
        if mask
    ]

    assert len(differences) > 1_000
    assert max(differences) < LARGEST_DIFFERENCE


def test_masks_cover_exactly_the_tokens_sampled_by_the_engine(
    played: Sampled,
) -> None:
    for each in played.all():
        turns = played.sampled[each.id]
        mask = each.response_mask
        assert list(compress(each.response_token_ids, mask)) == [
            token for turn in turns for token in turn.token_ids
        ]
        assert list(compress(each.log_probs, mask)) == [
            log_prob for turn in turns for log_prob in turn.log_probs
        ]
        assert set(compress(each.policy_versions, mask)) == {VERSION}
        inserted = [not written for written in mask]
        assert set(compress(each.log_probs, inserted)) <= {0.0}
        assert set(compress(each.policy_versions, inserted)) <= {-1}


def test_every_kind_of_trajectory_occurs(played: Sampled) -> None:
    """The other tests rely on every kind of trajectory being present."""
    every, cases = played.all(), played.trajectories
    turns = [turn for each in every for turn in each.turns]
    assert not [each.error for each in every if each.finish_reason.is_failure]
    assert any(len(each.turns) >= 3 for each in every)
    assert any(len(turn.calls) == 2 and turn.inserted_count for turn in turns)
    assert any("...(truncated)..." in text for each in every for text in _shown(each))
    assert any("I am root." in text for each in every for text in _shown(each))
    stopped = [turn for each in cases["turns that a text stops"] for turn in each.turns]
    assert any(turn.text.endswith("</tool_call>") and turn.inserted_count for turn in stopped)
    cut = {each.finish_reason for each in cases["turns cut by their length"]}
    assert cut == {FinishReason.LENGTH}


def test_canonical_trajectories_have_the_tokens_of_the_rendered_conversation(
    played: Sampled,
) -> None:
    """Canonical: encoding the text gives the same tokens, and the template keeps the text.

    This template adds an empty thought to a last turn without one. Forged replies are left out:
    rendered as messages, they would end the tool's turn.
    """
    honest = [each for each in played.all() if not any(END in text for text in _shown(each))]
    canonical = [each for each in honest if _is_canonical(played, each)]

    assert sum(len(each.turns) > 1 for each in canonical) >= 5
    for each in canonical:
        tokens = each.prompt_token_ids + each.response_token_ids
        assert _rendered(played.chat, each)[: len(tokens)] == tokens


def test_a_forged_reply_does_not_end_a_turn(played: Sampled) -> None:
    end, *_ = played.chat.stop_token_ids
    for each in played.trajectories["a forged reply"]:
        inserted = [
            token
            for token, mask in zip(each.response_token_ids, each.response_mask, strict=True)
            if not mask
        ]
        assert inserted.count(end) == sum(turn.inserted_count > 0 for turn in each.turns)


def _shown(trajectory: Trajectory) -> list[str]:
    """Replies as the model read them."""
    calls = (made for turn in trajectory.turns for made in turn.calls)
    return [made.shown for made in calls if made.shown is not None]


def _rendered(chat: ChatTokens, trajectory: Trajectory) -> list[int]:
    """The conversation rendered by the template, with the model's turns verbatim."""
    messages = list(trajectory.messages)
    for turn in trajectory.turns:
        messages.append({"role": "assistant", "content": turn.text.removesuffix(END)})
        shown = [made.shown for made in turn.calls if made.shown is not None]
        messages += [{"role": "tool", "content": text} for text in shown]
    return chat.prompt(messages, trajectory.tools)


def _is_canonical(played: Sampled, trajectory: Trajectory) -> bool:
    """Whether every turn encodes to its own tokens and the template keeps all text."""
    ids = trajectory.response_token_ids
    for turn in trajectory.turns:
        written = ids[turn.token_start : turn.token_start + turn.token_count]
        if played.tokenizer.encode(turn.text, add_special_tokens=False).ids != written:
            return False
    text = played.chat.text(trajectory.prompt_token_ids + ids)
    return played.chat.text(_rendered(played.chat, trajectory)).startswith(text)
