"""What runs inside the sandbox of a session: a driver, and the kernel that it starts.

The driver is the session's program. It starts IPython's kernel as a child, another one when that
has died, and tells the service what cells print, show and raise. Both are the user's to break:
the service believes nothing that comes from here.
"""
