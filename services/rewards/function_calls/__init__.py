"""Calls of functions compared with what their row allows, as the Berkeley leaderboard does."""
