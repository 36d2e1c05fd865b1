"""What kernels need, imported before there is one, so that a fork of this process starts warm."""

import importlib
import os
import sys
import tempfile

MODULES = (
    *("ipykernel.ipkernel", "ipykernel.debugger", "IPython.core.completerlib"),
    *("IPython.core.debugger", "IPython.core.logger", "IPython.core.magics.pylab"),
    *("IPython.extensions.storemagic", "pygments.lexers.python", "pygments.formatters.html"),
    *("pygments.formatters.terminal256", "stack_data", "executing", "sqlite3"),
    *("tornado.platform.asyncio", "numpy.random", "matplotlib.pyplot"),
    *("matplotlib.backends.backend_agg", "matplotlib.font_manager", "matplotlib.mathtext"),
    "matplotlib_inline.backend_inline",
)
"""None of them starts a thread or a ZeroMQ context: neither would survive the fork."""


def import_all() -> None:
    """Import `MODULES`."""
    # A kernel works without its debugger, which is as large as the rest of it.
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    with tempfile.TemporaryDirectory() as fonts:
        # Or matplotlib and fontconfig would leave their lists of fonts in HOME.
        caches = dict.fromkeys(("MPLCONFIGDIR", "XDG_CACHE_HOME"), fonts)
        os.environ.update(caches)
        for module in MODULES:
            importlib.import_module(module)
    for name in caches:
        del os.environ[name]
    del sys.modules["debugpy"]
