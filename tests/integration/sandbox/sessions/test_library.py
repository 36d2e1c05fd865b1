"""The internals of ipykernel that the kernel depends on still exist.

Holds for ipykernel 7.4 and IPython 9; see `services.sandbox.guest.notebook.kernel`.
"""

import json
import subprocess

from tests.support.runtimes import installed_runtime

LOOK = """
import inspect, json, sys
import ipykernel, IPython
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp

def parameters(function):
    return list(inspect.signature(function).parameters)

print(json.dumps({
    "ipykernel": ipykernel.__version__,
    "IPython": IPython.__version__,
    "bind": parameters(IPKernelApp._bind_socket),
    "iopub": parameters(IPKernelApp.init_iopub),
    "publisher": parameters(IOPubThread),
    "debugger": "debugpy" in sys.modules,
    "shell": [hasattr(InteractiveShell, name) for name in ("system_raw", "display_page")],
    "streams": IPKernelApp.outstream_class.allow_none,
}))
"""


def test_ipykernel_has_the_known_version() -> None:
    python = installed_runtime("sandbox").python
    found = json.loads(subprocess.check_output([python, "-I", "-c", LOOK], timeout=60))
    assert found.pop("ipykernel").startswith("7.4.")
    assert found.pop("IPython").startswith("9.")
    assert found == {
        "bind": ["self", "s", "port"],
        "iopub": ["self", "context"],
        "publisher": ["socket", "pipe", "session"],
        "debugger": False,
        "shell": [True, True],
        "streams": True,
    }
