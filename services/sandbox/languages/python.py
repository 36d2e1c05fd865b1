"""Python and its tests, run by the sandbox's own warm interpreters."""

from services.sandbox.execution import PythonFile, PythonModule
from services.sandbox.languages.declaration import Language

_VERSION = "import platform\nprint(platform.python_version())\n"
# A device that the driver does not list inside the sandbox is no use to a program.
_DEVICES = """\
import ctypes, platform, sys
try:
    driver = ctypes.CDLL("libcuda.so.1")
except OSError:
    sys.exit("there is no CUDA driver")
count = ctypes.c_int()
if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
    sys.exit("the CUDA driver sees no device: TEMPER_SANDBOX_GPU=true shows them to programs")
print(platform.python_version())
"""
_CUDA_DEVICE = "an NVIDIA GPU with its driver, and TEMPER_SANDBOX_GPU=true to show it to programs"

PYTHON = Language(
    name="python",
    source="main.py",
    run=PythonFile("main.py"),
    probe=PythonFile("probe.py"),
    probe_files={"probe.py": _VERSION},
)

PYTEST = Language(
    name="pytest",
    source="test_main.py",
    run=PythonModule("pytest", ("-p", "no:cacheprovider", "test_main.py")),
    probe=PythonModule("pytest", ("--version",)),
)

PYTHON_GPU = Language(
    name="python_gpu",
    source="main.py",
    run=PythonFile("main.py"),
    probe=PythonFile("probe.py"),
    probe_files={"probe.py": _DEVICES},
    present={"device": "/dev/nvidia[0-9]*"},
    elsewhere=_CUDA_DEVICE,
)

FAMILY = (PYTHON, PYTEST, PYTHON_GPU)
