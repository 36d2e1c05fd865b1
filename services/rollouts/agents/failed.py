"""How an agent fails."""

from services.contracts.errors import TemperError
from services.contracts.failures import InfrastructureCause


class AgentFailed(TemperError):
    """The agent did not end its session; ``cause`` is None if only its time was spent."""

    code = "agent_failed"

    def __init__(self, message: str, cause: InfrastructureCause | None) -> None:
        super().__init__(message)
        self.cause = cause
