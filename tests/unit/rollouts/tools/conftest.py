from tests.unit.rollouts.tools.toolboxes import server

__all__ = ["server"]
