"""What holds for every test."""

import signal

# A shell starts background commands with SIGINT ignored, and children inherit that: Ctrl-C could
# not be tried in a test run that itself runs in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
