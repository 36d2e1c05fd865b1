"""Letters of options in the sentences of models."""

import random
from collections.abc import Iterator

from benchmarks.parity.form import Form

LETTERS = "ABCDEFGHIJ"
OPTIONS = ("Lima", "Oslo", "Rome", "Quito", "Kyoto")
SENTENCES = {
    "letter": ("{0}", "({0})", "{0}.", "**{0}**", "`{0}`", '"{0}"', "$\\text{{{0}}}$"),
    "letter and option": ("{0}) {1}", "{0}. {1}", "({0}) {1}", "{0}: {1}", "**{0}. {1}**"),
    "letter and reason": ("{0}, since {1} is.", "{0}\n\n{1} is the capital.", "{0}, because."),
    "answer": (
        *("Answer: {0}", "Answer: ({0})", "answer: {0}", "ANSWER: {0}.", "Answer:\n{0}"),
        *("Answer: {0} ({1})", 'Answer: "{0}"', "Answer\uff1a{0}", "Answer: {0}) {1}"),
    ),
    "bold answer": (
        *("**Answer:** {0}", "**Answer**: {0}", "**Answer:** ({0})", "**Answer: {0}**"),
        *("**Final Answer:** **{0}**", "**Answer:** {0}) {1}", "### Answer: {0}"),
    ),
    "answer is": (
        *("The answer is {0}.", "The correct answer is ({0}).", "The answer is: {0}"),
        *("The answer is **{0}**.", 'The answer is "{0}".', "The answer is {0} - {1}"),
        *("The answer should be {0}.", "The answer must be {0}.", "The answer is option {0}."),
        "The best answer is therefore {0}.",
    ),
    "is right": (
        *("Therefore, {0} is correct.", "Option {0} is correct.", "({0}) is the right answer."),
        *("So the right one is {0}.", "The correct option is {0} because it fits."),
    ),
    "tag": ("<answer>{0}</answer>", "<answer>({0}) {1}</answer>"),
    "json": ('{{"answer": "{0}"}}', '```json\n{{"reason": "x", "answer": "{0}"}}\n```'),
    "box": (
        *(r"\boxed{{{0}}}", r"\boxed{{\text{{{0}}}}}", r"\boxed{{\textbf{{({0})}}}}"),
        *(r"\boxed{{{0}. {1}}}", r"\boxed{{{0}) {1}}}", r"\boxed{{\rm {0}}}", r"\boxed {{{0}}}"),
        *(r"\boxed {0}", r"\fbox{{{0}}}", r"$\boxed{{\text{{{0}. {1}}}}}$"),
    ),
    "later number": ("The answer is {0}. The probability is \\boxed{{0.5}}.",),
    "others after": ("Answer: {0}\n\nOption {2}: wrong.", "The answer is {0}, not {2}."),
    "other language": (
        *("答案\uff1a{0}", "答案是{0}", "正确答案为{0}。", "Antwort: {0}", "La respuesta es {0}."),
        *("La réponse est {0}.", "Ответ: {0}", "정답: {0}"),
    ),
    "reasoned": (
        "<think>Perhaps {2}? The answer is {2}.</think>\nThe answer is {0}.",
        "<think>\\boxed{{{2}}}</think>\\boxed{{{0}}}",
    ),
}
NO_CHOICE = (
    *("Answer: {0} and {2}", "The answer is ({0}) or ({2})", "\\boxed{{{0}, {2}}}"),
    *("<think>The answer is {0}.", "The answer is not {0}.", "{0} is wrong.", ""),
    *("Neither {0} nor {2} is correct.", "The answer is {1}.", "{2}. {1}: wrong. {0}. x: right."),
)


def forms(source: random.Random) -> Iterator[Form]:
    """Every sentence with every letter, and what names no option or several."""
    for kind, templates in SENTENCES.items():
        for template in templates:
            for letter in LETTERS:
                if kind in ("letter and option", "letter and reason") and letter == "I":
                    continue  # a Roman number and a pronoun as well
                yield Form("choice", kind, _written(template, letter, source), letter)
    for template in NO_CHOICE:
        for letter in LETTERS[:6]:
            text = _written(template, letter, source)
            yield Form("choice", "no choice", text, letter, is_right=False)


def near_misses(source: random.Random) -> Iterator[Form]:
    """Endless answers that name another option."""
    templates = [each for kind in SENTENCES.values() for each in kind]
    while True:
        gold, wrong = source.sample(LETTERS, 2)
        template = source.choice(templates)
        text = template.format(wrong, source.choice(OPTIONS), gold)
        yield Form("choice", "near miss", text, gold, is_right=False)


def _written(template: str, letter: str, source: random.Random) -> str:
    other = source.choice([each for each in LETTERS if each != letter])
    return template.format(letter, source.choice(OPTIONS), other)
