"""Boxes and code blocks in the texts of models; the gold is what they hold."""

import random
from collections.abc import Iterator

from benchmarks.parity.form import Form

CONTENTS = ("5", "-12", r"\frac{1}{2}", "x+1", r"\{1, 2\}", r"\sqrt{\frac{2}{3}}", "(2,3)", "f(x)")
BOXES = {
    "boxed": r"\boxed{{{0}}}",
    "fbox": r"\fbox{{{0}}}",
    "space": r"\boxed {{{0}}}",
    "dollars": r"$$\boxed{{{0}}}$$",
    "brackets": r"\[\boxed{{{0}}}\]",
    "bold": r"**\boxed{{{0}}}**",
}
AROUND = {
    "alone": "{0}",
    "sentence": "So the result is {0}.",
    "earlier box": "First \\boxed{{9}}. Then, by induction, {0}.",
    "cut off": "It is {0}. To check, \\boxed{{9",
    "reasoned": "<think>\\boxed{{9}}?</think>{0}",
    "braces before": "Let S = {{1, {{2 and {0}",
}
PROGRAMS = (
    "def f(x):\n    return x + 1",
    "import math\n\n\ndef f(x):\n    if x:\n        return math.sqrt(x)\n    return 0",
    "class A:\n    text = '''\n    ``` inside\n    '''\n",
    "x = '```'\nprint(x)",
)
FENCES = {
    "python": "```python\n{0}\n```",
    "py": "```py\n{0}\n```",
    "capital": "```Python\n{0}\n```",
    "file name": "```python solution.py\n{0}\n```",
    "bare": "```\n{0}\n```",
    "tildes": "~~~python\n{0}\n~~~",
    "four backticks": "````python\n{0}\n````",
    "cut off": "```python\n{0}",
    "carriage returns": "```python\r\n{0}\r\n```\r\n",
}
AROUND_CODE = {
    "alone": "{0}",
    "sentence": "Here it is:\n\n{0}\n\nIt is linear.",
    "shell after": "{0}\n\nRun it:\n\n```bash\npython a.py\n```\n",
    "output after": "{0}\n\nOutput:\n\n```text\n3\n```\n",
    "draft before": "```python\npass\n```\nBetter:\n{0}",
    "reasoned": "<think>```python\npass\n```</think>\n{0}",
}


def forms(source: random.Random) -> Iterator[Form]:
    """Every box and every fence in every text."""
    for content in CONTENTS:
        for box, template in BOXES.items():
            for place, around in AROUND.items():
                text = around.format(template.format(content))
                yield Form("box", f"{box}, {place}", text, content)
    for number in range(30):
        program = f"{source.choice(PROGRAMS)}\n# {number}"
        for fence, template in FENCES.items():
            for place, around in AROUND_CODE.items():
                if fence == "cut off" and place in ("sentence", "shell after", "output after"):
                    continue
                if fence == "bare" and place == "draft before":
                    continue  # the last block of the language is the draft
                text = around.format(template.format(program))
                yield Form("code", f"{fence}, {place}", text, program)


def near_misses(source: random.Random) -> Iterator[Form]:
    """Endless texts whose last box holds something else than the gold."""
    while True:
        wrong, gold = source.sample(CONTENTS, 2)
        text = f"First \\boxed{{{gold}}}. No: {source.choice(list(BOXES.values())).format(wrong)}"
        yield Form("box", "near miss", text, gold, is_right=False)
