"""Selects vLLM's tool call parser for a model."""

import json
from pathlib import Path

PARSERS = (
    ("<arg_key>", "glm45"),
    ("<function=", "qwen3_coder"),
    ("<tool_call>", "hermes"),
    ("[TOOL_CALLS]", "mistral"),
    ("Environment: ipython", "llama3_json"),
)
"""Markers of call formats in chat templates, and their parsers. GLM and Qwen3-Coder wrap their own
formats in Hermes tags, so they come first."""

TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
LARGEST_FILE = 16 * 2**20


def tool_call_parser(folder: Path | None) -> str | None:
    """The parser for the chat template in a folder; None without one, or for an unknown format.

    ``folder`` holds the tokenizer; None: the files are not on this host.
    """
    if folder is None:
        return None
    template = _template(folder)
    return next((parser for mark, parser in PARSERS if mark in template), None)


def _template(folder: Path) -> str:
    """The chat templates of a folder, one after another, from the first file that has any."""
    for name in TEMPLATE_FILES:
        try:
            if (folder / name).stat().st_size > LARGEST_FILE:
                continue
            text = (folder / name).read_text()
            found = text if name.endswith(".jinja") else _of_json(json.loads(text))
        except (OSError, ValueError):
            continue  # vLLM reports problems with a model better
        if found:
            return found
    return ""


def _of_json(config: object) -> str:
    """The template of a tokenizer's configuration, or all of several named ones."""
    value = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(value, list):
        named = [entry.get("template") for entry in value if isinstance(entry, dict)]
        return "\n".join(text for text in named if isinstance(text, str))
    return value if isinstance(value, str) else ""
