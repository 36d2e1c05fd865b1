"""What holds for every test."""

import signal

from hypothesis import HealthCheck, settings

# A shell starts background commands with SIGINT ignored, and children inherit that: Ctrl-C could
# not be tried in a test run that itself runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine may be busy, and no test asserts a time.
busy = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# A change is judged by examples of a fixed seed; `make test-full` looks for new ones.
settings.register_profile("repeatable", busy, derandomize=True)
settings.register_profile("exploring", busy)
settings.load_profile("repeatable")
