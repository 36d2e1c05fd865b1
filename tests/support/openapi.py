"""Sending a service what its OpenAPI description allows and forbids, made up by schemathesis."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import positive_data_acceptance
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.schemas import OpenApiSchema

Case = schemathesis.Case[Any]
Operation = APIOperation[Any, Any, Any, Any]

TOO_STRICT = (positive_data_acceptance,)
"""What the description cannot say, such as that a named file exists, may refuse a valid body."""


def operations(api: OpenApiSchema) -> Iterator[Operation]:
    """The operations that are described."""
    for result in api.get_all_operations():
        assert isinstance(result, Ok), result
        yield result.ok()


def check_answers(
    operation: Operation,
    mode: GenerationMode,
    url: str,
    headers: Mapping[str, str],
    *,
    examples: int,
    excluded: tuple[Any, ...] = TOO_STRICT,
    adapt: Callable[[Case], None] = lambda _case: None,
) -> None:
    """Every answer must be as described; ``adapt`` puts in what nobody can make up."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Case) -> None:
        adapt(case)
        case.call_and_validate(
            base_url=url, headers=dict(headers), excluded_checks=list(excluded), timeout=60
        )

    check()
