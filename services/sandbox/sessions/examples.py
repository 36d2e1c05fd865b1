"""Requests that the OpenAPI description shows."""

from fastapi.openapi.models import Example

CREATE: dict[str, Example] = {
    "file": {
        "summary": "A session with a file",
        "value": {"files": {"n.csv": "YSxiCjEsMgo="}, "idle_timeout": 300},
    },
}

EXECUTE: dict[str, Example] = {
    "plot": {
        "summary": "A cell that draws",
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
