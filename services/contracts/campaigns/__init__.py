"""Campaigns: requests, loops, limits, policies and reports."""
