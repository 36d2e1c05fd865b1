"""Numbers in the writings and sentences of models."""

import random
from collections.abc import Callable, Iterator

from benchmarks.parity.form import Form

WRITINGS: dict[str, Callable[[int], str]] = {
    "plain": str,
    "commas": lambda n: f"{n:,}",
    "latex commas": lambda n: f"{n:,}".replace(",", "{,}"),
    "narrow commas": lambda n: f"{n:,}".replace(",", ",\\!"),
    "latex spaces": lambda n: f"{n:,}".replace(",", "\\,"),
    "thin spaces": lambda n: f"{n:,}".replace(",", "\u2009"),
    "unicode minus": lambda n: f"\u2212{abs(n)}" if n < 0 else str(n),
    "en dash minus": lambda n: f"\u2013{abs(n)}" if n < 0 else str(n),
    "full width": lambda n: "".join(chr(ord(each) + 0xFEE0) for each in str(n)),
    "decimals": lambda n: f"{n}.0",
    "money": lambda n: f"\\${n:,}" if n >= 0 else f"-\\${-n:,}",
    "percent": lambda n: f"{n}\\%",
    "bold": lambda n: f"**{n}**",
    "latex bold": lambda n: f"\\textbf{{{n}}}",
    "switched bold": lambda n: f"{{\\bf {n}}}",
    "unit": lambda n: f"{n} km^2",
    "latex unit": lambda n: f"{n} \\text{{ meters}}",
    "fraction": lambda n: f"\\frac{{{2 * n}}}{{2}}" if n >= 0 else f"-\\frac{{{-2 * n}}}{{2}}",
    "power of ten": lambda n: f"{n} \\times 10^{{0}}",
}
SENTENCES = {
    "alone": "{}",
    "sentence": "So the total is {}.",
    "stated": "The answer is {}. It took 3 steps.",
    "bold stated": "**Answer:** {} (see step 4)",
    "marked": "First 12 + 5.\n#### {}",
    "run-on": "#### {}\n\nQuestion: Tom has 3 apples and 4 pears.",
    "boxed": "In 7 steps: $\\boxed{{{}}}$.",
    "boxed before": "It is $\\boxed{{{}}}$, found in 2 ways.",
    "framed": "$\\fbox{{{}}}$",
    "reasoned": "<think>Is it 11?</think>\nIt is {}.",
}


def forms(source: random.Random) -> Iterator[Form]:
    """Every writing in every sentence, five times."""
    for writing, write in WRITINGS.items():
        for sentence, template in SENTENCES.items():
            for _ in range(5):
                number = source.choice((-1, 1)) * source.randint(1, 10 ** source.randint(1, 8))
                text = template.format(write(number))
                yield Form("numeric", f"{writing}, {sentence}", text, str(number))


def near_misses(source: random.Random) -> Iterator[Form]:
    """Endless wrong numbers: one digit, the sign, a factor of ten, a group of digits."""
    writings, sentences = list(WRITINGS.values()), list(SENTENCES.values())
    while True:
        gold = source.choice((-1, 1)) * source.randint(2, 10 ** source.randint(1, 8))
        wrong = source.choice(
            (
                gold + source.choice((-1, 1)),
                -gold,
                gold * 10,
                int(str(gold)[:-1] or 0) if abs(gold) > 9 else gold + 2,
                gold + 10 ** source.randint(0, len(str(abs(gold)))),
                int(str(abs(gold))[-3:]) if abs(gold) > 999 else gold - 3,
            )
        )
        if wrong != gold:
            text = source.choice(sentences).format(source.choice(writings)(wrong))
            yield Form("numeric", "near miss", text, str(gold), is_right=False)
