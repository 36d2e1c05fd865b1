"""What holds for every test."""

import signal

from hypothesis import settings

# A shell starts background commands with SIGINT ignored, and children inherit that: Ctrl-C could
# not be tried in a test run that itself runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The machine may be busy, and no test asserts a time.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
