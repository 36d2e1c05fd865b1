"""Requests for tools that the OpenAPI description shows."""

from fastapi.openapi.models import Example

PROGRAM: dict[str, Example] = {
    "python": {
        "summary": "A Python program that reads its input",
        "value": {"language": "python", "code": "print(1 + int(input()))", "stdin": "41"},
    },
}

CASES: dict[str, Example] = {
    "cases": {
        "summary": "A Python program, and what it is to print for two inputs",
        "value": {
            "language": "python",
            "code": "print(2 * int(input()))",
            "cases": [
                {"stdin": "2", "expected_output": "4"},
                {"stdin": "21", "expected_output": "42"},
            ],
        },
    },
}

CELLS: dict[str, Example] = {
    "cells": {
        "summary": "Two cells, the second with what the first has made",
        "value": {"cells": ["import math\nradius = 2", "math.pi * radius**2"]},
    },
}

QUERIES: dict[str, Example] = {
    "queries": {
        "summary": "Two questions, with the scores of what is found",
        "value": {"queries": ["sort a list", "close a file"], "topk": 3, "return_scores": True},
    },
}

SEARCH: dict[str, Example] = {
    "words": {
        "summary": "One query, with the words that were found marked",
        "value": {"query": "sort a list in place", "topk": 5, "highlights": True},
    },
}
