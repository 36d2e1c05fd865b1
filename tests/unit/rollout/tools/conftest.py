from tests.unit.rollout.tools.opened import server

__all__ = ["server"]
