"""Programs that import packages which are warm in the sandbox."""

from tests.integration.sandbox.python_programs.program import Program


def uses(packages: str, source: str) -> Program:
    """A program that imports these packages."""
    return Program(source, imports=frozenset(packages.split()))


PROGRAMS = {
    "numpy": uses(
        "numpy",
        """
        import numpy as np
        print(np.arange(6).reshape(2, 3) @ np.ones((3, 2)), np.geterr(), np.get_printoptions())
        print(np.array([1.0]) / np.array([0.0]))
        np.random.seed(3)
        print(np.random.rand(3), np.random.default_rng(5).integers(0, 10, 5))
        np.zeros(3) + np.zeros(4)
    """,
    ),
    "numpy's warnings": uses(
        "numpy",
        """
        import warnings
        import numpy as np
        print(warnings.filters)
        np.log(np.array([-1.0, 0.0]))
        np.float64(1) / np.float64(0)
        np.mean([])
    """,
    ),
    "pandas": uses(
        "pandas numpy",
        """
        import pandas as pd
        frame = pd.DataFrame({"name": ["a", "b", "a"], "value": [1, 2, 3]})
        print(frame.groupby("name").sum(), frame.describe(), frame.dtypes)
        frame["missing"]
    """,
    ),
    "sympy": uses(
        "sympy",
        """
        import sympy
        from sympy import *
        x, y = symbols("x y", positive=True)
        print(integrate(exp(-x**2), (x, 0, oo)), solve([x + y - 3, x - y - 1], [x, y]))
        print(latex(Matrix([[x, 1], [1, y]]).inv()), Symbol("z").is_positive)
        pprint(Integral(sqrt(x), x))
        print(sympify("1 +"))
    """,
    ),
    "scientific": uses(
        "scipy sklearn networkx numpy",
        """
        import networkx as nx
        import numpy as np
        import scipy.stats
        from scipy.optimize import minimize
        from sklearn.linear_model import LinearRegression
        print(scipy.stats.norm.cdf(1.5), minimize(lambda v: (v[0] - 2) ** 2, [0.0]).x.round(3))
        print(LinearRegression().fit(np.arange(4).reshape(-1, 1), [0, 1, 2, 3]).coef_.round(6))
        print(nx.shortest_path(nx.cycle_graph(6), 0, 3))
        nx.shortest_path(nx.Graph(), 0, 1)
    """,
    ),
    "seeded random numbers": Program("""
        import random
        random.seed(7)
        print(random.random(), random.sample(range(100), 5), random.getrandbits(40))
    """),
    "state of modules": Program("""
        import csv, decimal, locale, mimetypes, random, tempfile
        print(decimal.getcontext(), csv.list_dialects(), csv.field_size_limit())
        print(mimetypes.guess_type("a.png"), tempfile.tempdir, tempfile.gettempprefix())
        print(random.getstate()[2], locale.localeconv()["decimal_point"])
    """),
}
