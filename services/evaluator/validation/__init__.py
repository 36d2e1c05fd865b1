"""Validation of evaluation files, and the samples they hold."""
