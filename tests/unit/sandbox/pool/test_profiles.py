"""Choosing a warm interpreter for a program."""

import pytest

from services.sandbox.execution import Command, Executable, PythonFile, PythonModule
from services.sandbox.pool.zygote import ALL, BY_SIZE, Profile, choose_profile

FILE = PythonFile("main.py")


@pytest.mark.parametrize(
    ("command", "imports", "name"),
    [
        (FILE, set(), "base"),
        (FILE, {"os", "unheard_of"}, "base"),
        (FILE, {"numpy"}, "numpy"),
        (FILE, {"numpy", "json"}, "numpy"),
        (FILE, {"networkx"}, "networkx"),
        (FILE, {"sympy"}, "sympy"),
        (FILE, {"mpmath"}, "sympy"),
        (FILE, {"pandas"}, "pandas"),
        (FILE, {"pandas", "numpy"}, "pandas"),
        (FILE, {"numpy", "sympy"}, "scientific"),
        (FILE, {"scipy"}, "scientific"),
        (FILE, {"sklearn", "networkx", "pandas"}, "scientific"),
        (PythonModule("pytest"), set(), "pytest"),
        (PythonModule("json.tool"), set(), "base"),
        (Executable(("bash",)), {"numpy"}, "base"),
    ],
)
def test_the_smallest_profile_with_all_packages_is_chosen(
    command: Command, imports: set[str], name: str
) -> None:
    assert choose_profile(command, frozenset(imports)).name == name


@pytest.mark.parametrize("profile", BY_SIZE, ids=lambda profile: profile.name)
def test_profiles_import_their_packages(profile: Profile) -> None:
    imported = {module.partition(".")[0] for module in profile.modules}
    # sympy and pandas import these themselves.
    assert profile.packages - imported <= {"mpmath", "numpy", "scipy"}


def test_names_are_unique() -> None:
    assert len({profile.name for profile in ALL}) == len(ALL)
