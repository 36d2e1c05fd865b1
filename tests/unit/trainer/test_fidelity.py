"""What validation says of rows that a chat template, or truncation, changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.checks import ValidationReport
from services.contracts.training.fidelity import FidelityReport, FindingCode
from services.contracts.training.fine_tuning import Method
from services.contracts.training.rows import RowKind
from services.core.artifacts import SourceFile
from services.core.process.reporter import REPORTS, Reporter
from services.datasets.rendering.fidelity import UnfaithfulFile
from services.datasets.scan import InvalidFile
from services.datasets.validate import FileValidation
from services.trainer.offline.spec import TrainingFilesSpec
from services.trainer.offline.validation import check_training_file
from tests.support.models.template_kinds import KINDS, WITHOUT_CALLS, tokenizer

PLAIN = KINDS["plain"]


def chat(question: str, answer: str, **last: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    turns[-1] |= last
    return {"messages": turns}


def calling() -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    call = {"id": "a", "type": "function", "function": function}
    return {
        "messages": [
            {"role": "user", "content": "How is the weather?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "sunny"},
            {"role": "assistant", "content": "It is sunny."},
        ]
    }


def pair(question: str, preferred: str, rejected: str) -> dict[str, Any]:
    return {
        "input": {"messages": [{"role": "user", "content": question}]},
        "preferred_output": [{"role": "assistant", "content": preferred}],
        "non_preferred_output": [{"role": "assistant", "content": rejected}],
    }


class Files:
    """Validates rows with a chat template."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tokenizer().save(str(folder / "tokenizer.json"))

    def report(
        self, rows: list[Any], template: str = PLAIN, kind: str = "supervised", **settings: Any
    ) -> FidelityReport:
        (self.folder / "chat_template.jinja").write_text(template)
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        method = Method.model_validate({"type": kind, kind: {"hyperparameters": settings}})
        source = SourceFile(path=path, filename="rows.jsonl")
        spec = TrainingFilesSpec(
            uploaded={"training_file": source},
            rows=method.as_offline.rows,
            max_seq_length=method.as_offline.max_seq_length,
            tokenizer_file=self.folder / "tokenizer.json",
            method=method,
        )
        reporter = Reporter(self.folder)
        file = FileValidation("training_file", source, reporter, lambda _: None)
        found = check_training_file(spec, file)
        report = ValidationReport.model_validate(json.loads(json.dumps(found))).fidelity
        assert report is not None
        return report

    def messages(self) -> list[str]:
        lines = (self.folder / REPORTS).read_text().splitlines()
        return [json.loads(line)["message"] for line in lines]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def found(report: FidelityReport) -> dict[str, list[int]]:
    return {each.code.value: each.first_rows for each in report.findings}


def test_rows_that_lose_nothing_are_shown_with_what_is_learned(files: Files) -> None:
    report = files.report([chat("2+2?", "4"), calling()])

    assert report.verdict == "faithful"
    assert report.summary == "2 rows can be trained as given"
    (sequence,) = report.samples[0].sequences
    assert [(part.text, part.trained) for part in sequence] == [
        ("<|start|>user\n2+2?<|end|>\n<|start|>assistant\n", False),
        ("4<|end|>", True),
    ]


def test_a_file_is_refused_whose_calls_the_template_drops(files: Files) -> None:
    with pytest.raises(UnfaithfulFile) as caught:
        files.report([chat("2+2?", "4"), calling()], WITHOUT_CALLS)

    assert "1 row of 2 lose words to the chat template, as row 2 does" in caught.value.message
    assert "turn 1 (assistant): call 'get_weather'" in caught.value.message
    assert caught.value.param == "training_file"
    assert any(
        "1 row (2): the chat template leaves out words to learn" in m for m in files.messages()
    )


def test_a_share_of_rows_may_lose_words(files: Files) -> None:
    report = files.report([chat("2+2?", "4"), calling()], WITHOUT_CALLS, max_lossy_share=0.5)

    assert report.verdict == "with_findings"
    assert found(report) == {"lost": [2]}
    assert report.samples[1].missing[0] == "turn 1 (assistant): call 'get_weather'"


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("supervised", chat("How?", "So.", reasoning_content="Because.")),
        ("kto", {**chat("How?", "So.", reasoning_content="Because."), "label": True}),
    ],
)
def test_reasoning_that_a_template_drops_is_named_for_every_kind_of_row(
    files: Files, kind: str, row: dict[str, Any]
) -> None:
    other = chat("Why?", "No.") | ({"label": False} if kind == "kto" else {})

    report = files.report([row, other], WITHOUT_CALLS, kind, max_lossy_share=1)

    assert found(report) == {"lost": [1]}
    assert report.samples[0].missing == ["turn 1 (assistant): reasoning 'Because.'"]


def test_reasoning_of_a_pair_that_a_template_drops_is_named(files: Files) -> None:
    row = pair("How?", "So.", "Not so.")
    row["preferred_output"][0]["reasoning_content"] = "Because."

    assert found(files.report([row], WITHOUT_CALLS, "dpo", max_lossy_share=1)) == {"lost": [1]}


def test_a_row_without_a_token_to_learn_is_left_out(files: Files) -> None:
    report = files.report(
        [chat("x y z " * 2000, "answer " * 40), chat("2+2?", "4")], max_seq_length=64
    )

    assert found(report) == {"untrained": [1], "truncated": [1]}
    assert report.left_out == 1
    assert report.verdict == "with_findings"


def test_a_file_is_refused_of_which_truncation_leaves_nothing_to_learn(files: Files) -> None:
    with pytest.raises(UnfaithfulFile, match="no row keeps a token to learn"):
        files.report([chat("x y z " * 2000, "answer " * 40)], max_seq_length=64)


def test_a_pair_that_truncation_makes_equal_is_left_out(files: Files) -> None:
    same = "word " * 100
    report = files.report(
        [pair("?", same + "a", same + "b"), pair("?", "a", "b")], PLAIN, "dpo", max_seq_length=64
    )

    assert found(report) == {"equal_pair": [1], "truncated": [1]}


def test_a_template_that_does_not_end_an_answer_is_said(files: Files) -> None:
    report = files.report([chat("2+2?", "4")], KINDS["no special tokens"])

    (finding,) = report.findings
    assert finding.code is FindingCode.NO_STOP
    assert "does not learn to stop" in finding.message
    assert found(files.report([chat("2+2?", "4")], KINDS["next role ends the turn"])) == {}


def test_a_context_that_serving_does_not_send_is_said(files: Files) -> None:
    report = files.report([chat("2+2?", "4")], KINDS["thought opened by the prompt"])

    assert found(report) == {"other_context": [1]}


def test_special_tokens_in_a_text_are_said(files: Files) -> None:
    report = files.report([chat("2+2?", "4"), chat("<|end|>\n<|start|>assistant", "4")])

    assert found(report) == {"control_tokens": [2]}


def test_neutralized_special_tokens_are_no_finding_against_a_file(files: Files) -> None:
    report = files.report([chat("<|end|>", "4")], control_tokens="neutralize")

    assert (found(report), report.verdict) == ({"neutralized": [1]}, "faithful")
    assert [(part.text, part.trained) for part in report.samples[0].sequences[0]] == [
        ("<|start|>user\n<|end|><|end|>\n<|start|>assistant\n", False),
        ("4<|end|>", True),
    ]


def test_tools_that_the_template_does_not_show_are_said(files: Files) -> None:
    function = {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}
    row = {**chat("2+2?", "4"), "tools": [{"type": "function", "function": function}]}

    report = files.report([row], max_lossy_share=1)

    assert found(report) == {"lost_context": [1]}
    assert report.samples[0].missing == ["tool 'get_weather'"]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"template": "qwen3"}, "control_tokens"),
        ({"llamafactory": {"split_special_tokens": True}}, "llamafactory.split_special_tokens"),
    ],
)
def test_special_tokens_that_cannot_be_neutralized_alone_are_refused(
    settings: dict[str, Any], field: str
) -> None:
    given = {"control_tokens": "neutralize", **settings}
    method = Method.model_validate({"type": "supervised", "supervised": {"hyperparameters": given}})

    with pytest.raises(InvalidRequest) as caught:
        method.as_offline.check_library_arguments(has_validation=False)

    assert caught.value.param == field


def test_a_row_that_the_template_refuses_is_named(files: Files) -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    row = {"messages": [{"role": "system", "content": "s"}, *chat("a", "b")["messages"]]}

    with pytest.raises(InvalidFile) as caught:
        files.report([chat("2+2?", "4"), row], refusing + PLAIN)

    (problem,) = caught.value.problems
    assert str(problem) == "row 2: the chat template refuses the conversation: no system"


def test_plain_text_is_not_rendered(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a"}\n')
    spec = TrainingFilesSpec(
        uploaded={"training_file": SourceFile(path=path, filename="rows.jsonl")},
        rows=RowKind.TEXT,
        max_seq_length=64,
        method=Method.model_validate({"type": "pretraining"}),
    )
    file = FileValidation(
        "training_file", spec.uploaded["training_file"], Reporter(tmp_path), lambda _: None
    )

    assert check_training_file(spec, file)["fidelity"] is None


def test_rows_that_are_too_long_may_be_left_out(files: Files) -> None:
    rows = [chat("word " * 100, "a"), chat("2+2?", "4")]

    report = files.report(rows, max_seq_length=64, long_rows="leave_out")

    assert (found(report), report.left_out) == ({"too_long": [1]}, 1)


def test_consecutive_turns_of_one_role_may_be_joined(files: Files) -> None:
    row = {"messages": [{"role": "user", "content": "Add."}, *chat("2+2?", "4")["messages"]]}
    with pytest.raises(InvalidFile, match="user and assistant must alternate"):
        files.report([row])

    report = files.report([row], join_turns=True)

    assert "Add.\n\n2+2?" in report.samples[0].sequences[0][0].text
