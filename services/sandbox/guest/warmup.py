"""First uses of packages, done once in the zygote so that no program pays for them.

Scientific packages import lazily and fill caches on first use. Programs cannot observe it except by
timing: random generators are reseeded in each.
"""

import io
from typing import Any


def numpy() -> None:
    """Arrays, linear algebra, random numbers, printing."""
    import numpy as np  # noqa: PLC0415 - only in zygotes that have it

    matrix = np.arange(9.0).reshape(3, 3) + np.eye(3)
    np.linalg.solve(matrix, np.ones(3))
    np.linalg.eigh(matrix @ matrix.T)
    np.linalg.svd(matrix)
    np.fft.fft(matrix)
    np.random.default_rng().normal(size=3)
    np.sort(np.random.rand(3)).mean()  # programs use the legacy generator
    str(matrix)
    np.array2string(np.arange(3))
    np.savetxt(io.StringIO(), matrix)


def sympy() -> None:
    """Calculus, equations, matrices, printing."""
    import sympy as sp  # noqa: PLC0415 - only in zygotes that have it

    x, y = sp.symbols("x y")
    expression: Any = sp.sin(x) * x**2 + sp.exp(-x)
    sp.diff(expression, x)
    sp.integrate(x * sp.cos(x), x)
    sp.integrate(x**2, (x, 0, 1))
    sp.solve(x**2 - 2, x)
    sp.solve([x + y - 3, x - y - 1], [x, y])
    sp.simplify(sp.sin(x) ** 2 + sp.cos(x) ** 2)
    sp.factor(sp.expand((x + 1) ** 3))
    sp.limit(sp.sin(x) / x, x, 0)
    sp.series(sp.cos(x), x, 0, 4)
    sp.Matrix([[1, 2], [3, 4]]).inv()
    sp.summation(x, (x, 1, 10))
    sp.factorint(360)
    sp.isprime(101)
    sp.Rational(1, 3).evalf()
    sp.latex(expression)
    sp.pretty(expression)
    str(sp.sympify("x + 1/2"))


def pandas() -> None:
    """Tables: reading, grouping, joining, printing."""
    import pandas as pd  # noqa: PLC0415 - only in zygotes that have it

    table = pd.read_csv(io.StringIO("name,value\na,1\nb,2\na,3\n"))
    table["day"] = pd.to_datetime("2024-01-01")
    table.groupby("name")["value"].mean()
    table.merge(table, on="name").sort_values("value_x")
    table.describe()
    table.pivot_table(index="name", values="value")
    str(table)
    table.to_csv(io.StringIO())


def scientific() -> None:
    """All of the above, statistics, optimization, learning and graphs."""
    import networkx as nx  # noqa: PLC0415 - only in zygotes that have it
    import numpy as np  # noqa: PLC0415
    import scipy.integrate  # noqa: PLC0415
    import scipy.optimize  # noqa: PLC0415
    import scipy.stats  # noqa: PLC0415
    from sklearn.linear_model import LinearRegression, LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    numpy()
    sympy()
    pandas()
    scipy.stats.norm.cdf(0.5)
    scipy.optimize.minimize(lambda v: float((v**2).sum()), np.ones(2))
    scipy.integrate.quad(np.sin, 0, 1)
    features, labels = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])
    train, _, wanted, _ = train_test_split(features, labels, random_state=0)
    LinearRegression().fit(train, wanted).predict(features)
    LogisticRegression().fit(features, labels)
    nx.shortest_path(nx.path_graph(4), 0, 3)


BY_NAME = {"numpy": numpy, "sympy": sympy, "pandas": pandas, "scientific": scientific}
"""By profile name."""
