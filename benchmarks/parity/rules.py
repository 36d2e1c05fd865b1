"""The published rules of other harnesses, rewritten from their published expressions.

A rule returns its verdict of a form. A difference between its verdicts and the right ones has the
reason that stands beside it.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.parity.form import Form, Grader
from benchmarks.parity.runs import Crashed, called, printed

logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it warns that it has no time limit


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, and why it differs where it does."""

    verdict: Callable[[Form], bool]
    reason: str


def _same_number(found: str | None, gold: str) -> bool:
    cleaned = re.sub(r"[,$]|\.$", "", found or "")
    return cleaned == gold


def _gsm8k_strict(form: Form) -> bool:
    found = re.search(r"#### (\-?[0-9\.\,]+)", form.text)
    return _same_number(found[1] if found else None, form.gold)


def _gsm8k_flexible(form: Form) -> bool:
    found = [one or other for one, other in re.findall(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", form.text)]
    return _same_number(found[-1] if found else None, form.gold)


def _mmlu_pro(form: Form) -> bool:
    found = re.search(r"answer is \(?([ABCDEFGHIJ])\)?", form.text)
    return found is not None and found[1] == form.gold


_REMOVED = (
    *("**", "$\\boxed{", "}$", "\\$", "$\\text{", "$", "\\mathrm{", "\\{", "\\text", "\\("),
    *("\\mathbf{", "{", "\\boxed"),
)
_ANSWERS = "Answer|答案|Antwort|Respuesta|Réponse|정답|答え"


def _simple_evals_choice(form: Form) -> bool:
    text = form.text
    for each in _REMOVED:
        text = text.replace(each, "")
    found = re.search(rf"(?i)(?:{_ANSWERS})[ \t]*[:\uff1a][ \t]*([A-J])", text)
    return found is not None and found[1].upper() == form.gold


def _lighteval_box(form: Form) -> bool:
    return _last_boxed(form.text) == form.gold


def _hendrycks(form: Form) -> bool:
    box = _last_boxed(form.text)
    return box is not None and _stripped(box) == _stripped(form.gold)


def _math_verify(form: Form) -> bool:
    from math_verify import parse, verify  # type: ignore[import-untyped]  # noqa: PLC0415 - a library that only this comparison needs

    gold = parse(f"${form.gold}$", parsing_timeout=None)
    return bool(verify(gold, parse(form.text, parsing_timeout=None), timeout_seconds=None))


def _livecodebench(form: Form) -> bool:
    lines = form.text.split("\n")
    fences = [number for number, line in enumerate(lines) if "```" in line]
    return len(fences) > 1 and "\n".join(lines[fences[-2] + 1 : fences[-1]]) == form.gold


def _apps(form: Form) -> bool:
    """APPS's comparison of values and of words, in this process."""
    tests, program = json.loads(form.gold), form.text.split("```")[1].partition("\n")[2]
    try:
        if isinstance(tests, list):
            return all(
                printed(program, each["input"]).split() == each["output"].split() for each in tests
            )
        pairs = zip(tests["inputs"], tests["outputs"], strict=True)
        return all(called(program, "f", given) == wanted for given, wanted in pairs)
    except Crashed:
        return False


def _last_boxed(text: str) -> str | None:
    start = text.rfind("\\boxed")
    start = text.rfind("\\fbox") if start < 0 else start
    opened = text.find("{", start) if start >= 0 else -1
    depth = 0
    for place in range(opened, len(text) if opened >= 0 else opened):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return text[opened + 1 : place]
    return None


def _stripped(text: str) -> str:
    """The normal form of the MATH data set's published comparison (D. Hendrycks et al. 2021)."""
    for old, new in (
        *(("\n", ""), ("\\!", ""), ("tfrac", "frac"), ("dfrac", "frac"), ("\\left", "")),
        *(("\\right", ""), ("^{\\circ}", ""), ("^\\circ", ""), ("\\$", ""), ("\\%", "")),
    ):
        text = text.replace(old, new)
    text = text.split("\\text{ ")[0]
    left, equals, right = text.partition("=")
    text = right if equals and "=" not in right and len(left.strip()) <= 2 else text
    text = re.sub(r"sqrt(\w)", r"sqrt{\1}", text).replace(" ", "")
    text = re.sub(r"frac(\d)(\d)", r"frac{\1}{\2}", text)
    text = "\\frac{1}{2}" if text == "0.5" else text
    return re.sub(r"^(\d+)/(\d+)$", r"\\frac{\1}{\2}", text)


RULES: Mapping[Grader, Mapping[str, Rule]] = {
    "numeric": {
        "lm-eval gsm8k, strict": Rule(
            _gsm8k_strict, "reads ASCII digits behind #### alone, and compares their characters"
        ),
        "lm-eval gsm8k, flexible": Rule(
            _gsm8k_flexible, "takes the last ASCII digits of the text, and splits LaTeX's groups"
        ),
    },
    "choice": {
        "lm-eval mmlu_pro": Rule(
            _mmlu_pro, "reads the first 'answer is X' alone, also in reasoning and of two letters"
        ),
        "simple-evals": Rule(
            _simple_evals_choice, "reads the first 'Answer: X' alone, also where others follow"
        ),
    },
    "math": {
        "lm-eval hendrycks_math": Rule(_hendrycks, "compares characters after replacements"),
        "math-verify": Rule(
            _math_verify,
            "compares an equation by its last side, reads inequalities as sets in the gold alone, "
            "drops bases, units and degrees, and tells no tiny numbers apart",
        ),
    },
    "box": {
        "lighteval": Rule(
            _lighteval_box, "takes the last box even if it is cut off, and \\fbox only without any"
        ),
    },
    "tests": {
        "APPS": Rule(
            _apps,
            "compares words whatever their lines, takes true for 1, and here the first block",
        ),
    },
    "code": {
        "LiveCodeBench": Rule(
            _livecodebench, "takes what is between the last two lines with three backticks"
        ),
    },
}
