"""What can go wrong with an order to work on an index."""

from collections.abc import Sequence

from temper.client.errors import ClientError


class OrderFailed(ClientError):
    """It could not be carried out; ``problems`` are what is wrong with a corpus, one line each."""

    def __init__(self, message: str, code: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = problems


class OrderInterrupted(ClientError):
    """It was ended by who gave it."""

    code = "interrupted"
