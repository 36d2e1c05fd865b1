"""Screenshots for docs/dashboard.md, taken from demo runs in a running stack."""
