"""Evaluations, their scores and trajectories, as tests read them."""
