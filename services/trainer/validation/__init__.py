"""Validation of training files, before a job may queue."""
