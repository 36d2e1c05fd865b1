"""Symbolic equivalence of two answers, in killable processes."""
