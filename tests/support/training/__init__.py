"""Learners and offline trainings of tests."""
