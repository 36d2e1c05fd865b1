"""Alerts: rules over jobs and the host, and what they raised, over REST."""
