"""Tool files on the operator's file system."""

from pathlib import Path

from services.contracts.errors import InvalidRequest
from services.contracts.multi_turn import Tool
from services.contracts.tool_files import LARGEST_FILE, parse_tool_file


def read_tool_file(path: Path) -> list[Tool]:
    """The tools that a file declares; raises `InvalidRequest` that names file and field.

    What the tools are is not looked at: `check_tools` does.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LARGEST_FILE + 1)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise InvalidRequest(message, param="tools") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is no UTF-8: {error}", param="tools") from error
    return parse_tool_file(text, str(path))
