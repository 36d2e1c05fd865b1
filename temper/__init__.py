"""Temper's command line and Python client."""

from temper.client import Temper

__all__ = ["Temper"]
