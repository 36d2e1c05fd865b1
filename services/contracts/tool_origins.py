"""How tool files that are in use name the tool services."""

GATEWAY_ORIGINS = ("http://localhost:8080", "http://127.0.0.1:8080")
"""Where published tool files expect /run_code and /retrieve: the gateway's default address."""
