"""The Python program that runs a model's program and tells the result on a descriptor of its own.

It runs in the sandbox, in place of the model's program, and reads what to do from standard input:
``before`` (sources), then a ``call`` of a function, whose value is told as JSON, or a ``test`` (a
source), after which a token is told. Nothing is told unless all of that came to its end.

As in human-eval, MBPP, APPS and LiveCodeBench the program is a module that is not ``__main__``:
what it guards is not run. What it prints goes to standard error, and nothing at its exit matters.
Values are read by their exact types, and ``==`` of a test does not ask a method of the program's
own, so that no object passes for another.
"""

RUNNER = """
def _main():
    import ast, json, os, sys, types
    told, leave, list_of, kinds = os.fdopen(os.dup(1), "w"), os._exit, list, types.FunctionType
    os.dup2(2, 1)
    asked = json.loads(sys.stdin.read())
    token, test, call = asked.pop("token", None), asked.pop("test", None), asked.pop("call", None)
    dump, exact, number_types = json.dumps, type, (bool, int, float, str, type(None))

    def plain(value):
        kind = exact(value)
        if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
            return plain(value.tolist())
        if kind in number_types:
            return value
        if kind is list_of or kind is tuple:
            return [plain(item) for item in value]
        if issubclass(kind, dict):
            return {dump(key) if exact(key) is not str else key: plain(item)
                    for key, item in dict.items(value)}
        raise TypeError(f"a value of type {kind.__name__} is not JSON")

    def own(value):
        kind = exact(value)
        method = getattr(kind, "__eq__", None)
        if exact(method) is kinds and method.__code__.co_filename == "solution":
            return True
        if kind in (list_of, tuple, set, frozenset):
            return any(own(item) for item in value)
        return kind is dict and any(own(item) for item in value.values())

    def same(one, other):
        is_strange = exact(one) is not exact(other) and (own(one) or own(other))
        return not is_strange and one == other

    class Equality(ast.NodeTransformer):
        def visit_Compare(self, node):
            self.generic_visit(node)
            if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
                return node
            name = ast.Name("__same__", ast.Load())
            return ast.copy_location(ast.Call(name, [node.left, *node.comparators], []), node)

    solution = types.ModuleType("solution")
    sys.modules["solution"], names = solution, solution.__dict__
    program, before = {program}, asked["before"]
    checks = None if test is None else compile(
        ast.fix_missing_locations(Equality().visit(ast.parse(test))), "test", "exec")
    for source in before:
        exec(compile(source, "solution", "exec"), names)
    try:
        code = compile(program, "solution", "exec")
    except IndentationError:
        if not before:
            raise
        code = compile(before[-1] + "\\n" + program, "solution", "exec")
    name = call and call["name"]
    imported = names.get(name)
    exec(code, names)
    if checks is not None:
        names["__same__"] = same
        exec(checks, names)
        text = token
    else:
        owner = names.get("Solution")
        function = getattr(owner(), name) if hasattr(owner, name) else names[name]
        if function is imported:
            raise NameError(f"the program has no function {name}")
        text = dump(plain(function(*call["arguments"])))
    told.write(text)
    told.flush()
    leave(0)

_main()
"""

_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random"),
    *(
        "statistics",
        "itertools",
        "functools",
        "operator",
        "io",
        "sys",
        "json",
        "builtins",
        "typing",
    ),
)
PRELUDE = "\n".join(
    [
        *(f"from {name} import *" for name in _MODULES),
        f"import {', '.join(_MODULES)}",
        "sys.setrecursionlimit(50000)",
    ]
)
"""What LiveCodeBench runs before programs whose functions are called: its imports and its recursion
limit."""


def runner_of(program: str) -> str:
    """The code to run in place of a program."""
    return RUNNER.replace("{program}", repr(program))
