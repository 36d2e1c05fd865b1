"""From the grader of a request to the grader that judges."""

from typing import assert_never

from services.contracts.evaluations import ExactGrader, NumericGrader, RegexGrader
from services.contracts.evaluations import Grader as GraderSettings
from services.evaluator.graders.exact import ExactMatch
from services.evaluator.graders.grader import Grader
from services.evaluator.graders.numeric import NumericMatch
from services.evaluator.graders.regex import RegexMatch


def make_grader(settings: GraderSettings) -> Grader:
    """Build the grader; raises ``InvalidRequest`` naming the field that cannot work."""
    match settings:
        case ExactGrader():
            return ExactMatch(ignore_case=settings.ignore_case)
        case RegexGrader():
            return RegexMatch(settings.pattern, ignore_case=settings.ignore_case)
        case NumericGrader():
            return NumericMatch(
                absolute_tolerance=settings.absolute_tolerance,
                relative_tolerance=settings.relative_tolerance,
            )
        case _:
            assert_never(settings)
