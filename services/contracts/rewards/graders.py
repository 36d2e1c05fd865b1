"""Graders that compare answers with the golds of their rows, and those of published benchmarks.

Like OpenAI's, they work in evaluations and as rewards.
"""

from typing import Literal

from pydantic import Field, StrictBool, StrictInt

from services.contracts.base import Number, Request


class ExactGrader(Request):
    """Correct when the answer equals a gold after stripping outer white space."""

    type: Literal["exact"] = "exact"
    ignore_case: StrictBool = Field(
        default=False, description="Whether upper and lower case are equal."
    )


class RegexGrader(Request):
    """Correct when the pattern is found in the answer.

    The last match of its group (of the group named ``answer``, if there are several) is compared
    with the gold; without a group, finding the pattern is enough. Patterns are RE2's: matching
    takes linear time, and there is no look-around.
    """

    type: Literal["regex"] = "regex"
    pattern: str = Field(
        min_length=1, max_length=1000, description="Regular expression to find in the answer."
    )
    ignore_case: StrictBool = Field(
        default=False, description="Whether upper and lower case are equal."
    )


class NumericGrader(Request):
    """Correct when the number that the answer states equals the gold within the tolerances.

    It is that of the last <answer>, else of the last box, else the one behind the first #### with
    a number, its unit and a remark (headings have more), else that of the last sentence that states
    the answer, else the last number of the text that is not denied. Several values, and a
    calculation without its result, are none.
    """

    type: Literal["numeric"] = "numeric"
    absolute_tolerance: Number = Field(
        default=0.0, ge=0.0, description="Absolute difference that counts as equal."
    )
    relative_tolerance: Number = Field(
        default=1e-9, ge=0.0, description="Difference that counts as equal, relative to the gold."
    )


class ToolCallsGrader(Request):
    """Correct when the answer states the calls of the gold: the same ones as often, in any order.

    The gold is JSON text, ``[{"toolName": ..., "paramList": {...}}]``. The answer's JSON is such a
    list, or holds one at ``path``; all that its <tool_call> tags, else its fences, else its text
    state count together. Reasoning and prose around them are ignored.
    """

    type: Literal["tool_calls"] = "tool_calls"
    path: str = Field(
        default="label", max_length=200, description="Dotted path to the calls in a JSON answer."
    )
    strict_types: StrictBool = Field(
        default=False, description='Whether 100 and "100" are different values.'
    )


class BoxedIntegerGrader(Request):
    """Correct when the last closed \\boxed{...} of the answer holds the gold as an integer.

    Integers are compared by value: 073 equals 73. A box that holds anything else is wrong.
    """

    type: Literal["boxed_integer"] = "boxed_integer"


class ChoiceGrader(Request):
    """Correct when the answer names the option of the gold: its letter, or its position from 0.

    The letter is that of the last <answer>, the last box that names an option, or the answer in
    JSON, else the one that the last sentence about the answer states, the only one that is called
    right or chosen and not denied, or the one that the whole answer consists of or begins with, as
    in "(B)" or "B) Lima". Several different letters are no choice, and a letter within prose, such
    as the article "A", is never read.
    """

    type: Literal["choice"] = "choice"
    options: StrictInt = Field(
        default=10,
        ge=2,
        le=26,
        description="Number of options: the letters from A that count as answers.",
    )


GoldGrader = (
    ExactGrader | RegexGrader | NumericGrader | BoxedIntegerGrader | ChoiceGrader | ToolCallsGrader
)
"""A grader that compares the answer with the golds of its row; 1 when one matches, else 0."""


class MathGrader(Request):
    """1 when the last closed \\boxed{...} means the same as a gold, else 0.

    Of a gold that has boxes itself, such as a worked solution, the last one counts. An unevaluated
    expression does not equal a number.
    """

    type: Literal["math"] = "math"
    ordered: StrictBool = Field(
        default=False, description="Whether the order of a list matters, as in a tuple."
    )


class TokenF1Grader(Request):
    """Token F1 of the answer and the closest gold, after SQuAD normalization: 0 to 1."""

    type: Literal["token_f1"] = "token_f1"


MetricsVariant = Literal["official", "fork"]
"""The published definitions of a benchmark's measures, or those of RD-Agent's fork of OpenCompass,
for comparison with its tables."""


OracleName = Literal["drd2", "jnk3", "gsk3b"]
"""Properties of molecules that only a trained model can tell."""


class ChemistryGrader(Request):
    """Grades answers about molecules, in the schema of ChemCoTBench (OpenMol/ChemCoTBench).

    The row says its sub-task in ``subtask``, and holds ``gt`` or ``query`` and ``meta``; the answer
    is JSON behind the reasoning. Scores are 1 for a right answer, 0 for a wrong, missing or
    impossible one, and the similarity of scaffolds; a better molecule is a right answer. Needs the
    runtime ``grading``.
    """

    type: Literal["chemistry"] = "chemistry"
    tasks: list[Literal["mol_und", "mol_edit", "mol_opt", "reaction"]] = Field(
        min_length=1, max_length=4, description="Chemistry tasks that the rows may belong to."
    )
    metrics: MetricsVariant = Field(
        default="official",
        description="Definition of the metrics. `fork`: an answer without a number is the "
        "number 0, and logp is plain MolLogP.",
    )


class PanoramaGrader(Request):
    """Correct when the answer names exactly the right options, or the right code of a claim, in the
    schema of PANORAMA (LG-AI-Research/PANORAMA), a benchmark of patent examination.

    The row has ``gold_answers`` and ``silver_answers``, or its gold is ``{"code": ...}``. The
    answer is JSON: ``{"answer": ["A"]}``, ``{"answer": 12}`` or ``{"code": "102"}``.
    """

    type: Literal["panorama"] = "panorama"
    task: Literal["par4pc", "pi4pc", "noc4pc"] = Field(
        description="Task of the benchmark PANORAMA."
    )
    metrics: MetricsVariant = Field(
        default="official",
        description="Definition of the metrics. `fork`: par4pc has no silver answers, and the "
        "F1 of all options pooled; noc4pc leaves answers without a code out of its "
        "macro F1.",
    )


class FunctionCallsGrader(Request):
    """Correct when the answer states the calls that its row allows: the AST check of the Berkeley
    Function Calling Leaderboard.

    The row has ``function``, a list with ``name`` and ``parameters`` of each, and ``ground_truth``,
    a list of ``{name: {parameter: [allowed values]}}``. The answer is ``[name(key=value), ...]`` or
    JSON: lists of ``{"name": ..., "arguments": {...}}`` or of ``{name: {...}}``, or such objects,
    all that stand in its <tool_call> tags, else in its fences, else in its text.
    """

    type: Literal["function_calls"] = "function_calls"
    expects: Literal["calls", "no_calls"] = Field(
        default="calls",
        description="Expected calls. no_calls: no function fits, and an answer without calls is "
        "right.",
    )


MeaningGrader = MathGrader | TokenF1Grader
"""A grader that compares the answer with the golds of its row by more than their characters."""
