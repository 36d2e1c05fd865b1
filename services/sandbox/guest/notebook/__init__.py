"""Runs inside the sandbox of a session: a driver, and the kernel that it starts.

The driver is the session's program. It starts IPython's kernel as a child, restarts it when it
dies, and reports what cells print, display and raise. User code can tamper with both, so the
service trusts nothing that comes from here.
"""
