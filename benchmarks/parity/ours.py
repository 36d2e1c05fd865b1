"""Temper's verdicts of forms, without processes around them."""

from benchmarks.parity.form import Form
from benchmarks.parity.runs import passes
from services.contracts.rewards.graders import ChoiceGrader, NumericGrader
from services.contracts.sandbox.programs import Language
from services.rewards.answers.boxes import last_box, last_boxes
from services.rewards.answers.programs import last_program
from services.rewards.graders.gold import matcher
from services.rewards.graders.meaning import expression
from services.rewards.interface import Sample
from services.rewards.mathematics.expressions import are_equal

_NUMERIC = matcher(NumericGrader())
_CHOICE = matcher(ChoiceGrader(options=10))


def verdict(form: Form) -> bool:
    """Whether Temper's grader calls a form right."""
    answer = Sample.of_answer(form.text).answer
    match form.grader:
        case "numeric":
            return _NUMERIC.grade(answer, [form.gold]).correct
        case "choice":
            return _CHOICE.grade(answer, [form.gold]).correct
        case "math":
            found = last_boxes([answer])
            return bool(found) and are_equal(expression(form.gold), ", ".join(found))
        case "box":
            return last_box([answer]) == form.gold
        case "code":
            return last_program([answer], Language.PYTHON) == form.gold
        case "tests":
            return passes(answer, form.gold)
