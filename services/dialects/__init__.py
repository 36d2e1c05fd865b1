"""The dialects that clients speak to a model: OpenAI's two and Anthropic's."""

from services.dialects.chat_completions import CHAT_COMPLETIONS
from services.dialects.messages import MESSAGES
from services.dialects.responses import RESPONSES

__all__ = ["DIALECTS"]

DIALECTS = (CHAT_COMPLETIONS, RESPONSES, MESSAGES)
