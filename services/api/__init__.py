"""The REST gateway and its dispatcher."""
