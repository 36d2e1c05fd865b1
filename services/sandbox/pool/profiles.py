"""Which packages a zygote has imported, and which zygote fits a program."""

from dataclasses import dataclass

from services.sandbox.execution import Command, Executable, PythonModule

COMMON = (
    *("abc", "argparse", "array", "ast", "base64", "bisect", "calendar", "cmath", "collections"),
    *("contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "hashlib", "heapq", "io", "itertools", "json", "math", "numbers", "operator"),
    *("pathlib", "pickle", "pprint", "queue", "random", "re", "shutil", "statistics", "string"),
    *("struct", "subprocess", "tempfile", "textwrap", "threading", "time", "traceback", "typing"),
    *("unicodedata", "urllib.parse", "uuid", "warnings"),
)
"""What programs of models import most; a fork costs the more, the more there is."""


@dataclass(frozen=True)
class Profile:
    """A kind of zygote: the modules it imports, and the packages a program finds there."""

    name: str
    packages: frozenset[str]
    modules: tuple[str, ...]


def _profile(name: str, packages: str, *modules: str) -> Profile:
    return Profile(name, frozenset(packages.split()), (*COMMON, *(modules or packages.split())))


BASE = _profile("base", "")
PYTEST = _profile("pytest", "pytest", "pytest", "_pytest.assertion.rewrite")
NOTEBOOK = _profile("notebook", "", "services.sandbox.guest.notebook.driver")
SCIENTIFIC = _profile(
    "scientific",
    "numpy scipy pandas sympy mpmath sklearn networkx",
    *("numpy", "numpy.random", "pandas", "sympy", "networkx", "sklearn"),
    *("scipy.stats", "scipy.optimize", "scipy.integrate", "scipy.linalg", "scipy.sparse"),
    *("scipy.special", "scipy.interpolate", "scipy.signal", "scipy.spatial"),
)
BY_SIZE = (
    BASE,
    _profile("numpy", "numpy", "numpy", "numpy.random", "numpy.linalg"),
    _profile("networkx", "networkx"),
    _profile("sympy", "sympy mpmath"),
    _profile("pandas", "pandas numpy", "pandas", "numpy.random"),
    SCIENTIFIC,
)
"""From the one that forks fastest to the slowest."""

ALL = (*BY_SIZE, PYTEST, NOTEBOOK)


def choose_profile(command: Command, imports: frozenset[str]) -> Profile:
    """The quickest zygote that has loaded all of what the program will import, where one has."""
    if isinstance(command, Executable):
        return BASE
    if isinstance(command, PythonModule):
        return PYTEST if command.module == "pytest" else BASE
    needed = imports & SCIENTIFIC.packages
    return next(profile for profile in BY_SIZE if needed <= profile.packages)
