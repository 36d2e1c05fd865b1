"""The named benchmarks, in the schemas in which their data is published."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from services.contracts.evaluation.benchmarks import QUESTION, Benchmark
from services.contracts.rewards.graders import (
    BoxedIntegerGrader,
    ChemistryGrader,
    ChoiceGrader,
    FunctionCallsGrader,
    MathGrader,
    NumericGrader,
    PanoramaGrader,
    TokenF1Grader,
    ToolCallsGrader,
)
from services.contracts.rewards.rewards import CodeTestsReward

_BOXED_ANSWER = (
    "{question}\nPlease reason step by step, and put your final answer within \\boxed{}."
)
_BOXED_LETTER = (
    "Please reason step by step, and put the letter of the right option within \\boxed{}."
)

_ARC = Benchmark(
    choices="choices.text",
    labels="choices.label",
    answer="answerKey",
    prompt="{question}\n\n" + _BOXED_LETTER,
    grader=ChoiceGrader(options=5),
)
_FUNCTION_CALLS = Benchmark(
    question="question.0",
    answer=None,
    fields={"functions": "function"},
    prompt="These functions can be called, given as JSON:\n{functions}\n\n{question}\n\nAnswer "
    'with the calls to make, as a JSON list of objects with "name" and "arguments", or with [] if '
    "no function fits or a required argument is not known, and with nothing else.",
    grader=FunctionCallsGrader(),
)
_AIME_ANSWERS = (0, 999)
_SHORT_ANSWER = "{question}\nAnswer with a name, a number or a few words, and nothing else."

_ASKED = {
    "par4pc": "Which of the options disclose what the claim claims, in whole or in part? Answer "
    'with JSON alone, such as {"answer": ["A", "C"]}.',
    "pi4pc": "Which one of the paragraphs of the prior art is the most relevant to the claim? "
    'Answer with JSON alone, such as {"answer": 12}.',
    "noc4pc": "Is the claim allowed (ALLOW), not novel (102) or obvious (103)? Answer with "
    'JSON alone, such as {"code": "102"}.',
}
_PARTS = {
    "par4pc": {"options": "options"},
    "pi4pc": {"prior_art": "prior_art_specification", "options": "options"},
    "noc4pc": {"prior_art": "prior_art_specifications"},
}


def _panorama(task: Literal["par4pc", "pi4pc", "noc4pc"], *, reasons: bool = False) -> Benchmark:
    """A question of patent examination about a claim; ``reasons``: after reasoning about it."""
    asked = _ASKED[task]
    if reasons:
        asked = asked.replace("JSON alone", "your reasoning, step by step, and then JSON")
    parts = "".join(
        f"{name.replace('_', ' ').capitalize()}:\n{{{name}}}\n\n" for name in _PARTS[task]
    )
    return Benchmark(
        question="context",
        answer="answer" if task == "noc4pc" else None,
        fields={"claim": "claim_number", **_PARTS[task]},
        prompt=f"Patent application:\n{QUESTION}\n\n{parts}Claim {{claim}} is examined. {asked}",
        shuffles=True,
        grader=PanoramaGrader(task=task),
    )


ChemistryTask = Literal["mol_und", "mol_edit", "mol_opt", "reaction"]


def _chemistry(*tasks: ChemistryTask) -> Benchmark:
    return Benchmark(
        question="query",
        answer=None,
        subtasks=["task", "subtask"],
        shuffles=True,
        grader=ChemistryGrader(tasks=list(tasks)),
    )


BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType(
    {
        "arc_challenge": _ARC,
        "arc_easy": _ARC,
        "gpqa": Benchmark(
            question="Question",
            answer="Correct Answer",
            incorrect=["Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"],
            prompt="{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=4),
        ),
        "chemcotbench_mol_und": _chemistry("mol_und"),
        "chemcotbench_mol_edit": _chemistry("mol_edit"),
        "chemcotbench_mol_opt": _chemistry("mol_opt"),
        "chemcotbench_reaction": _chemistry("reaction"),
        "chemcotbench": _chemistry("mol_und", "mol_edit", "mol_opt", "reaction"),
        "bfcl_simple": _FUNCTION_CALLS,
        "bfcl_multiple": _FUNCTION_CALLS,
        "bfcl_parallel": _FUNCTION_CALLS,
        "bfcl_parallel_multiple": _FUNCTION_CALLS,
        "bfcl_irrelevance": _FUNCTION_CALLS.model_copy(
            update={"grader": FunctionCallsGrader(expects="no_calls")}
        ),
        "panorama_par4pc": _panorama("par4pc"),
        "panorama_pi4pc": _panorama("pi4pc"),
        "panorama_noc4pc": _panorama("noc4pc"),
        "panorama_par4pc_cot": _panorama("par4pc", reasons=True),
        "panorama_pi4pc_cot": _panorama("pi4pc", reasons=True),
        "panorama_noc4pc_cot": _panorama("noc4pc", reasons=True),
        "hotpotqa": Benchmark(prompt=_SHORT_ANSWER, grader=TokenF1Grader()),
        "triviaqa": Benchmark(
            answer="answer.aliases", prompt=_SHORT_ANSWER, grader=TokenF1Grader()
        ),
        "aime24": Benchmark(
            question="problem",
            prompt=_BOXED_ANSWER,
            answer_range=_AIME_ANSWERS,
            grader=BoxedIntegerGrader(),
        ),
        "aime25": Benchmark(
            question="problem",
            prompt="{question}\nRemember to put your final answer within \\boxed{}.",
            answer_range=_AIME_ANSWERS,
            grader=BoxedIntegerGrader(),
        ),
        "gsm8k": Benchmark(grader=NumericGrader()),
        "math": Benchmark(
            question="problem", answer="solution", prompt=_BOXED_ANSWER, grader=MathGrader()
        ),
        "math500": Benchmark(question="problem", prompt=_BOXED_ANSWER, grader=MathGrader()),
        "mmlu": Benchmark(
            choices="choices",
            prompt="{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=4),
        ),
        "mmlu_pro": Benchmark(
            choices="options",
            prompt="{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=10),
        ),
        "hellaswag": Benchmark(
            question="ctx",
            answer="label",
            choices="endings",
            prompt="Which option continues the text best?\n\n{question}\n\n" + _BOXED_LETTER,
            grader=ChoiceGrader(options=4),
        ),
        "tool_calls": Benchmark(question="query", answer="label", grader=ToolCallsGrader()),
        "humaneval": Benchmark(
            question="prompt",
            answer=None,
            prompt="Complete this function. Answer with the whole program, its imports included, "
            "in a fenced code block.\n\n```python\n{question}\n```",
            fields={"test": "test", "entry_point": "entry_point", "begun": "prompt"},
            tests="{test}\n\ncheck({entry_point})\n",
            setup="{begun}",
            grader=CodeTestsReward(partial=False, setup_field="setup"),
        ),
        "mbpp": Benchmark(
            question="text",
            answer=None,
            prompt="You are an expert Python programmer, and here is your task: {question} Your "
            "code should pass these tests:\n\n{asserts}\n\nAnswer with a fenced code block.",
            fields={"asserts": "test_list", "setup": "test_setup_code"},
            tests="{setup}\n{asserts}\n",
            grader=CodeTestsReward(partial=False),
        ),
    }
)
"""Benchmarks by name, in the schemas in which their data is published."""
