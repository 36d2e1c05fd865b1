"""Small tokenizers that split text like those of known families."""

import json

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

_SIZE = 600
# Breaks between words as published: digits stand alone (Qwen) or in threes (Llama 3), and line
# breaks melt with the blanks and the punctuation before them.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}|"
    r" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CORPUS = (
    "The answer to the question is in the output of the tool.\n\nLet me compute it:\n",
    '{"name": "python", "arguments": {"code": "print(1 + 2)\\n"}}\n{"name": "search", "id": "a"}\n',
    "system\nuser\nassistant\nipython\n\n[1, 2, 3]\n]\n\n}\n\n)\n.\n\n\n  \n\n    return x\n",
    "Environment: ipython\nToday Date: 26 Jul 2024\n\n# Tools\n\nYou may call functions.\n\n",
)


def byte_level(special: tuple[str, ...], marks: tuple[str, ...], *, digits: str) -> Tokenizer:
    """Byte-level BPE as Qwen and Llama 3 have it; ``marks`` are added tokens but not special."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=digits != ""))
    tokenizer.normalizer = normalizers.NFC()
    words = Regex(_WORDS.format(digits=digits))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_SIZE,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    _add(tokenizer, special, marks)
    return tokenizer


def sentence_pieces(special: tuple[str, ...]) -> Tokenizer:
    """BPE over characters with blanks as ``▁`` and bytes for the unknown, as Mistral has it."""
    trained = Tokenizer(models.BPE())
    # Trained by words, so that no piece reaches over several of them.
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    trained.train_from_iterator(_CORPUS, trainers.BpeTrainer(vocab_size=_SIZE, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    pieces = ("<unk>", *special, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"])
    tokenizer = Tokenizer(
        models.BPE(
            {piece: number for number, piece in enumerate(pieces)},
            [tuple(pair) for pair in model["merges"]],
            unk_token="<unk>",
            byte_fallback=True,
            fuse_unk=True,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    _add(tokenizer, ("<unk>", *special), ())
    return tokenizer


def _add(tokenizer: Tokenizer, special: tuple[str, ...], marks: tuple[str, ...]) -> None:
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in marks])
