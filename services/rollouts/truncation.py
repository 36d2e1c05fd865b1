"""How much of a tool's reply the model reads."""

from services.contracts.multi_turn import TruncateSide


def truncated(text: str, limit: int, side: TruncateSide) -> str:
    """At most ``limit`` characters of a reply, and a marker where something was left out.

    The marker is not counted; from the middle, an odd ``limit`` keeps one character less.
    """
    if len(text) <= limit:
        return text
    match side:
        case TruncateSide.LEFT:
            return text[:limit] + "...(truncated)"
        case TruncateSide.RIGHT:
            return "(truncated)..." + text[len(text) - limit :]
        case TruncateSide.MIDDLE:
            half = limit // 2
            return text[:half] + "...(truncated)..." + text[len(text) - half :]
