"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

_EXACT = {
    "type": "string_check",
    "name": "exact",
    "operation": "eq",
    "input": "{{ sample.output_text }}",
    "reference": "{{ item.answer }}",
}
_FORMULA = {
    "type": "multi",
    "name": "both",
    "graders": {
        "exact": _EXACT,
        "alike": {
            "type": "text_similarity",
            "name": "alike",
            "input": "{{ sample.output_text }}",
            "reference": "{{ item.answer }}",
            "evaluation_metric": "rouge_l",
        },
    },
    "calculate_output": "0.8 * exact + 0.2 * alike",
}

VALIDATE: dict[str, Example] = {
    "formula": {"summary": "A formula over two graders", "value": {"grader": _FORMULA}},
}
RUN: dict[str, Example] = {
    "exact": {
        "summary": "One of OpenAI's graders",
        "value": {"grader": _EXACT, "model_sample": "Paris", "item": {"answer": "Paris"}},
    },
    "retool": {
        "summary": "A reward of Temper's",
        "value": {
            "grader": {"type": "retool", "equivalence": "math"},
            "model_sample": "So it is \\boxed{\\frac{1}{2}}",
            "item": {"gold": "0.5"},
        },
    },
}
