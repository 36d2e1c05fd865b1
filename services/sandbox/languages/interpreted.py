"""Languages whose interpreter runs the source directly."""

from services.sandbox.execution import Executable, PythonFile, PythonModule
from services.sandbox.languages.code import with_php_tag
from services.sandbox.languages.declaration import LanguageSpec

_VERSION = "import platform\nprint(platform.python_version())\n"
# A device is usable only if the driver lists it inside the sandbox.
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

PYTHON = LanguageSpec(
    name="python",
    source="main.py",
    run=PythonFile("main.py"),
    probe=PythonFile("probe.py"),
    probe_files={"probe.py": _VERSION},
)

PYTEST = LanguageSpec(
    name="pytest",
    source="test_main.py",
    run=PythonModule("pytest", ("-p", "no:cacheprovider", "test_main.py")),
    probe=PythonModule("pytest", ("--version",)),
)

PYTHON_GPU = LanguageSpec(
    name="python_gpu",
    source="main.py",
    run=PythonFile("main.py"),
    probe=PythonFile("probe.py"),
    probe_files={"probe.py": _DEVICES},
    present={"device": "/dev/nvidia[0-9]*"},
    elsewhere=_CUDA_DEVICE,
)

BASH = LanguageSpec(
    name="bash",
    source="main.sh",
    run=Executable(("bash", "main.sh")),
    probe=Executable(("bash", "--version")),
    debian=("bash",),
)

PERL = LanguageSpec(
    name="perl",
    source="main.pl",
    run=Executable(("perl", "main.pl")),
    probe=Executable(("perl", "-e", 'printf "%vd", $^V')),
    debian=("perl", "libdata-compare-perl"),
    visible=("/etc/perl",),
)

RUBY = LanguageSpec(
    name="ruby",
    source="main.rb",
    run=Executable(("ruby", "main.rb")),
    probe=Executable(("ruby", "--version")),
    debian=("ruby",),
)

LUA = LanguageSpec(
    name="lua",
    source="main.lua",
    run=Executable(("lua5.4|lua|lua5.3", "main.lua")),
    probe=Executable(("lua5.4|lua|lua5.3", "-v")),
    debian=("lua5.4",),
)

PHP = LanguageSpec(
    name="php",
    source="main.php",
    run=Executable(("php", "-d", "zend.assertions=1", "-f", "main.php")),
    probe=Executable(("php", "--version")),
    rewrite=with_php_tag,
    debian=("php-cli", "php-mbstring"),
    visible=("/etc/php",),
)

R = LanguageSpec(
    name="R",
    source="main.R",
    run=Executable(("Rscript", "main.R")),
    probe=Executable(("Rscript", "--version")),
    debian=("r-base-core",),
    visible=("/etc/R",),
)

JULIA = LanguageSpec(
    name="julia",
    source="main.jl",
    run=Executable(("julia", "--startup-file=no", "main.jl")),
    probe=Executable(("julia", "--version")),
    elsewhere="Julia from julialang.org, below /usr/local",
    visible=("/etc/julia",),
)

RACKET = LanguageSpec(
    name="racket",
    source="main.rkt",
    run=Executable(("racket", "main.rkt")),
    probe=Executable(("racket", "--version")),
    debian=("racket",),
    visible=("/etc/racket",),
)

# The shell's default output: columns separated by bars, no header; stop at the first error.
SQL = LanguageSpec(
    name="sql",
    source="main.sql",
    run=Executable(("sqlite3", "-batch", "-bail", ":memory:", ".read main.sql")),
    probe=Executable(("sqlite3", "--version")),
    debian=("sqlite3",),
)

LEAN = LanguageSpec(
    name="lean",
    source="Main.lean",
    run=Executable(("lean", "Main.lean")),
    probe=Executable(("lean", "--version")),
    elsewhere="Lean 4 from lean-lang.org, below /usr/local",
)

FAMILY = (PYTHON, PYTEST, PYTHON_GPU, BASH, PERL, RUBY, LUA, PHP, R, JULIA, RACKET, SQL, LEAN)
