"""Grades function calls like the Berkeley Function Calling Leaderboard."""
