"""The processes that answer, behind one port."""
