"""The losses that the trainers run, against the published numbers and closed forms."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import logsigmoid

from services.contracts.llamafactory.names import Stage
from services.trainer.errors import TrainingFailure
from services.trainer.offline.library.sequence_trainer import read_tokens
from services.trainer.offline.library.untrained_rows import is_trained
from tests.support.training.offline import OfflineJob, rows_of

BETA = 0.1


def a_batch(trainer: Any, rows: int = 4) -> Any:
    """The first rows of the training data as the trainer's collator makes a batch of them."""
    return trainer.data_collator([trainer.train_dataset[index] for index in range(rows)])


def log_probabilities(model: Any, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum over the answer of each row, and its number of tokens."""
    labels = batch["labels"][:, 1:]
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
    each = logits[:, :-1].log_softmax(-1).gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
    mask = labels != -100
    return (each * mask).sum(-1), mask.sum(-1)


def closed_form(loss: str, policy: Any, reference: Any, lengths: Any) -> torch.Tensor:
    """The published formula over pairs: the first half chosen, the second rejected."""
    if loss in {"ipo", "orpo", "simpo"}:
        policy, reference = policy / lengths, reference / lengths
    chosen, rejected = policy.chunk(2)
    reference_chosen, reference_rejected = reference.chunk(2)
    ratio = (chosen - rejected) - (reference_chosen - reference_rejected)
    match loss:
        case "sigmoid":
            return -logsigmoid(BETA * ratio)
        case "hinge":
            return torch.relu(1 - BETA * ratio)
        case "ipo":
            return (ratio - 1 / (2 * BETA)) ** 2
        case "orpo":
            odds = (chosen - rejected) - (torch.log1p(-chosen.exp()) - torch.log1p(-rejected.exp()))
            return -chosen - BETA * logsigmoid(odds)
        case _:
            return -logsigmoid(BETA * (chosen - rejected) - 0.5)


@pytest.mark.parametrize("loss", ["sigmoid", "hinge", "ipo", "orpo", "simpo"])
def test_a_preference_loss_has_its_published_formula(
    loss: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = OfflineJob(
        tmp_path, base, Stage.DPO, stage_arguments={"pref_loss": loss, "pref_beta": BETA}
    )
    trainer = job.trainer(monkeypatch)
    batch = a_batch(trainer)
    with torch.no_grad():
        reference, lengths = log_probabilities(trainer.model, batch)
        for parameter in trainer.model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
        policy, _ = log_probabilities(trainer.model, batch)
        expected = closed_form(loss, policy, reference, lengths).mean()

        value, metrics = trainer.get_batch_loss_metrics(trainer.model, dict(batch))

    assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    assert metrics["rewards/margins"] != 0.0


@pytest.mark.parametrize("stage", [Stage.DPO, Stage.KTO, Stage.RM])
def test_only_answers_have_labels_and_lengths_agree(
    stage: Stage, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = OfflineJob(tmp_path, base, stage).trainer(monkeypatch)

    batch = a_batch(trainer)

    ids, labels, mask = (batch[name] for name in ("input_ids", "labels", "attention_mask"))
    assert ids.shape == labels.shape == mask.shape
    tokenizer = trainer.processing_class
    answers = [
        tokenizer.decode([token for token in row.tolist() if token != -100]) for row in labels
    ]
    assert set(answers) <= {*(f"{n}!<|im_end|>" for n in range(8)), "No, not at all.<|im_end|>"}
    for row, learned in zip(ids, labels, strict=True):
        assert all(int(b) in (-100, int(a)) for a, b in zip(row, learned, strict=True))


KTO_EXAMPLE = {
    "policy": ([-10.0, -20.0], [-15.0], [-30.0, -25.0, -28.0]),
    "reference": ([-12.0, -19.0], [-11.0], [-31.0, -27.0, -27.5]),
}


@pytest.mark.parametrize(
    ("undesirable_weight", "sft_weight", "expected"),
    [(1.0, 0.0, 0.4660124), (1.5, 0.0, 0.5295899), (1.0, 0.1, 0.7660124)],
)
def test_kto_gives_the_published_numbers(
    undesirable_weight: float,
    sft_weight: float,
    expected: float,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = {"kto_rejected_weight": undesirable_weight, "pref_ftx": sft_weight}
    job = OfflineJob(tmp_path, base, Stage.KTO, stage_arguments={"pref_beta": BETA, **weights})
    trainer = job.trainer(monkeypatch)
    chosen, rejected, kl = map(torch.tensor, KTO_EXAMPLE["policy"])
    means = chosen / torch.tensor([5.0, 10.0])
    no_logits = torch.zeros(1)
    monkeypatch.setattr(
        trainer,
        "concatenated_forward",
        lambda *_: (chosen, rejected, no_logits, no_logits, kl, means),
    )
    reference = tuple(map(torch.tensor, KTO_EXAMPLE["reference"]))
    monkeypatch.setattr(trainer, "compute_reference_log_probs", lambda *_: reference)

    loss, metrics = trainer.get_batch_loss_metrics(trainer.model, {"labels": torch.zeros(3)})

    assert metrics["kl"] == pytest.approx(0.8333333, abs=1e-6)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_kto_sums_log_probabilities_over_the_answer(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = OfflineJob(tmp_path, base, Stage.KTO).trainer(monkeypatch)
    batch = a_batch(trainer)
    with torch.no_grad():
        expected, _ = log_probabilities(trainer.model, batch)

        chosen, rejected, *_ = trainer.concatenated_forward(trainer.model, batch)

    tags = batch["kto_tags"]
    assert torch.allclose(chosen, expected[tags], atol=1e-4)
    assert torch.allclose(rejected, expected[~tags], atol=1e-4)


def test_the_loss_of_a_reward_model_is_that_of_score_differences(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = OfflineJob(tmp_path, base, Stage.RM).trainer(monkeypatch)
    model = trainer.model.eval()
    batch = a_batch(trainer)
    ends = batch["attention_mask"].sum(-1) - 1
    with torch.no_grad():
        output = model.pretrained_model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            output_hidden_states=True,
        )
        hidden = output.hidden_states[-1][torch.arange(len(ends)), ends]
        scores = hidden @ model.v_head.summary.weight[0]
        chosen, rejected = scores.chunk(2)

        loss = trainer.compute_loss(model, dict(batch))

    assert loss.item() == pytest.approx(-logsigmoid(chosen - rejected).mean().item(), abs=1e-5)
    assert model.v_head.summary.bias.item() == 0.0
    assert not model.v_head.summary.bias.requires_grad


def trained_scores(
    job: OfflineJob, again: OfflineJob, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[float], dict[str, Any]]:
    """The trainer's scores of the first rows, those of the preferred answers first, and the result
    of the job; the job ``again`` is the same in another folder."""
    from services.trainer.offline.library.trainers import load_value_head_model

    result = job.run()
    trainer = again.trainer(monkeypatch)
    load_value_head_model(trainer.model, job.folder / "output/checkpoint-4")
    batch = a_batch(trainer)
    with torch.no_grad():
        _, (_, *scores) = trainer.compute_loss(
            trainer.model.eval(), dict(batch), return_outputs=True
        )
    return torch.cat(scores).tolist(), result


def scored_conversations(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What a classifier reads for the scores of the first rows."""
    return [
        [*row["input"]["messages"], *row[side]]
        for side in ("preferred_output", "non_preferred_output")
        for row in rows[:4]
    ]


def test_a_trained_reward_model_is_a_classifier_with_the_trainers_scores(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.rewards.reward_models.classifier import Classifier

    # The named templates train on the line breaks after the end of a turn.
    for method, template in (
        ("full", None),
        ("lora", None),
        ("full", "chatml"),
        ("full", "alpaca"),
    ):
        folder = tmp_path / f"{method}-{template}"
        changes: dict[str, Any] = {"method": method, "template": template, "max_seq_len": 320}
        job = OfflineJob(folder, base, Stage.RM, **changes, arguments={"save_steps": 4})
        again = OfflineJob(folder.with_suffix(".again"), base, Stage.RM, **changes)
        scores, result = trained_scores(job, again, monkeypatch)

        classifier = Classifier(folder / result["model_dir"], 1024)

        assert result["kind"] == "full"
        conversations = scored_conversations(rows_of(Stage.RM))
        assert classifier.score(conversations) == pytest.approx(scores, abs=1e-5)


OPEN_TURNS = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% if message.role == 'user' and brief %} Be brief.{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A chat template that ends no turn, as GLM's, with tools and a variable."""


def test_a_reward_model_reads_tools_variables_and_open_turns_as_it_was_trained(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.rewards.reward_models.classifier import Classifier

    model = tmp_path / "model"
    shutil.copytree(base, model)
    (model / "chat_template.jinja").write_text(OPEN_TURNS)
    tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    rows = rows_of(Stage.RM)
    for row in rows:
        row["input"]["tools"] = tools
    changes: dict[str, Any] = {
        "rows": rows,
        "chat_template_kwargs": {"brief": True},
        "max_seq_len": 320,
    }
    job = OfflineJob(tmp_path / "job", model, Stage.RM, **changes, arguments={"save_steps": 4})
    again = OfflineJob(tmp_path / "again", model, Stage.RM, **changes)
    scores, result = trained_scores(job, again, monkeypatch)

    classifier = Classifier(job.folder / result["model_dir"], 1024)

    conversations = scored_conversations(rows)
    found = classifier.score(conversations, [tools] * len(conversations))
    assert found == pytest.approx(scores, abs=1e-5)
    assert classifier.score(conversations) != pytest.approx(scores, abs=1e-4)


def test_micro_batches_have_the_loss_of_their_whole_batch_also_when_the_last_is_smaller(
    base: Path, tmp_path: Path
) -> None:
    # Of ten rows a batch of eight and one of two; the lengths of the answers differ.
    question = {"role": "user", "content": "Well?"}
    answers = [" ".join(["yes"] * (1 + number % 5 * 3)) for number in range(10)]
    rows = [{"messages": [question, {"role": "assistant", "content": text}]} for text in answers]
    whole, split = (
        OfflineJob(
            tmp_path / str(size),
            base,
            Stage.SFT,
            rows=rows,
            batch_size=8,
            arguments={"per_device_train_batch_size": size, "logging_steps": 1},
        )
        for size in (8, 1)
    )

    whole.run()
    split.run()

    assert len(whole.losses()) == 2
    assert split.losses() == pytest.approx(whole.losses(), abs=1e-4)


def test_a_template_that_a_reward_model_cannot_keep_is_refused_before_training(
    base: Path, tmp_path: Path
) -> None:
    job = OfflineJob(tmp_path, base, Stage.RM, template="qwen3")

    with pytest.raises(TrainingFailure, match="qwen3 cannot be written"):
        job.run()

    assert not list(tmp_path.glob("output/checkpoint-*"))


def test_tokens_are_counted_under_every_mask_of_packed_rows() -> None:
    ids = torch.tensor([[5, 0, 6, 7, 0, 0]])  # padding is 0, which is also a word and the end
    labels = torch.tensor([[-100, -100, 6, 7, 0, -100]])
    numbered = torch.tensor([[1, 1, 1, 2, 2, 0]])
    additive = torch.full((1, 1, 6, 6), torch.finfo(torch.float32).min)
    for token in range(5):
        additive[0, 0, token, : token + 1] = 0

    masks = (torch.ones_like(ids), numbered, additive, additive == 0)
    counts = [
        int(read_tokens({"input_ids": ids, "labels": labels, "attention_mask": mask}, 0).sum())
        for mask in masks
    ]

    assert counts == [5, 5, 5, 5]


def test_rows_of_the_librarys_templates_are_trained_only_with_something_to_learn() -> None:
    none, some, other = [-100, -100], [-100, 3], [-100, 4]

    assert [is_trained({"labels": each}) for each in (none, some)] == [False, True]
    pairs = ((some, other), (some, some), (some, none))
    found = [is_trained({"chosen_labels": a, "rejected_labels": b}) for a, b in pairs]
    assert found == [True, False, False]
