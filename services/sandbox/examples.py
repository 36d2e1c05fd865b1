"""Example requests shown in the OpenAPI description."""

from fastapi.openapi.models import Example

PROGRAM: dict[str, Example] = {
    "python": {
        "summary": "A Python program that reads its input",
        "value": {
            "language": "python",
            "code": "print(sum(map(int, input().split())))",
            "stdin": "1 2 3",
        },
    },
    "files": {
        "summary": "A C++ program that reads a file and writes one",
        "value": {
            "language": "cpp",
            "code": '#include <fstream>\nint main() { std::ifstream in("n.txt"); int n; in >> n; '
            'std::ofstream("double.txt") << 2 * n; }',
            "files": {"n.txt": "MjE="},
            "fetch_files": ["double.txt"],
            "compile_timeout": 20,
        },
    },
}

CASES: dict[str, Example] = {
    "sums": {
        "summary": "A program with two inputs and their expected output",
        "value": {
            "language": "python",
            "code": "print(sum(map(int, input().split())))",
            "cases": [
                {"stdin": "1 2", "expected_output": "3"},
                {"stdin": "4 5 6", "expected_output": "15"},
            ],
            "stop_on_first_failure": True,
        },
    },
}


SCRIPT: dict[str, Example] = {
    "folder": {
        "summary": "A script that reads a folder of the operator and writes a file",
        "value": {
            "code": "import json, os\njson.dump(os.listdir('datasets'), open('data.json', 'w'))",
            "seconds": 3600,
            "folders": {"datasets": "campaigns/campaign-1"},
            "fetch_files": ["data.json"],
        },
    },
}

CREATE: dict[str, Example] = {
    "file": {
        "summary": "A session with a file",
        "value": {"files": {"n.csv": "YSxiCjEsMgo="}, "idle_timeout": 300},
    },
}

EXECUTE: dict[str, Example] = {
    "plot": {
        "summary": "A cell that plots",
        "value": {
            "code": "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()",
            "timeout": 30,
        },
    },
}

JUPYTER: dict[str, Example] = {
    "cells": {
        "summary": "Cells that share a variable",
        "value": {"cells": ["x = 6 * 7", "x"], "total_timeout": 30},
    },
}
