"""Texts whose ids tell tokenizers apart that transformers builds differently."""

from collections.abc import Iterable

PROBES = (
    # Blanks: leading, trailing, several, and those of other widths.
    *(
        "Hello world",
        " Hello world",
        "  Hello  world  ",
        "Hello world ",
        "   ",
        " ",
        "\u00a0x\u00a0",
    ),
    *("a  b   c    d", "\u3000a\u2003b", "a\u200bb", "x =  1"),
    # Line breaks and tabs, alone, together and at both ends.
    *(
        "a\nb",
        "\n",
        "\n\n",
        "\r\n",
        "a\r\nb\r\n",
        "\tdef f():\n\t\treturn 1\n",
        "a \n b",
        ".\n\n",
        "\n a",
    ),
    *("    if x:\n        y()\n",),
    # Accents, composed and combining; forms that only NFC or NFKC joins.
    *(
        "\u00e9l\u00e8ve",
        "e\u0301le\u0300ve",
        "\u212b \ufb01 \u00bd",
        "\u1112\u1161\u11ab",
        "\ud55c\uae00",
        "n\u0303o",
    ),
    # Scripts without blanks, right-to-left ones, and marks that attach to letters.
    *(
        "\u4f60\u597d\uff0c\u4e16\u754c\u3002",
        "\u3053\u3093\u306b\u3061\u306f",
        "\u0645\u0631\u062d\u0628\u0627",
        "\u0928\u092e\u0938\u094d\u0924\u0947",
        "\u0441\u0432\u0435\u0442",
    ),
    # Emoji: one code point, joined ones, flags; characters that no vocabulary has.
    *(
        "\U0001f600",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd",
        "\U00010348\ue000",
    ),
    # Digits, their groups, and numbers with signs.
    *("0123456789", "1,234.56", "-3e10", "x2y33z444", "\u0661\u0662\u0663"),
    # Capitals, contractions, punctuation and code.
    *("HeLLo WORLD", "I'm you'LL it's", "?!... --- ###", "https://example.org/a_b?c=d&e"),
    *('{"a": [1, "b"]}', "<b>4</b>", "a_b-c.d/e\\f", "\u2581x \u0120y"),
    "",
)
"""Byte-level models, SentencePiece ones and those with a normalizer differ on these."""

MOST_SPECIAL = 8


def probes_for(special: Iterable[str]) -> list[str]:
    """All probes, and texts around a model's own special tokens."""
    chosen = sorted(set(special))[:MOST_SPECIAL]
    return [*PROBES, *(f"{token}a {token} b{token}" for token in chosen)]
