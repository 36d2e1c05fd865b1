from tests.unit.rollouts.tools.opened import server

__all__ = ["server"]
