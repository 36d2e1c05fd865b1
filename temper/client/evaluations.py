"""Evaluations."""

from urllib.parse import quote

from services.contracts.base import Page
from services.contracts.evaluations import CreateEvaluation, Evaluation, SampleResult
from temper.client import pages
from temper.client.transport import Transport

PATH = "/v1/evaluations"


class Evaluations:
    """/v1/evaluations. Follow and wait for them through `Jobs`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, request: CreateEvaluation) -> Evaluation:
        """Submit an evaluation."""
        return self._transport.post(PATH, Evaluation, request)

    def get(self, evaluation_id: str) -> Evaluation:
        """Return one evaluation, with its metrics once it has succeeded."""
        return self._transport.get(_path(evaluation_id), Evaluation)

    def page(self, *, most: int = 20) -> Page[Evaluation]:
        """Return the newest evaluations, ``most`` at most."""
        return pages.page(self._transport, PATH, Page[Evaluation], {}, most)

    def cancel(self, evaluation_id: str) -> Evaluation:
        """Ask for an evaluation to end; its status is final once its processes are gone."""
        return self._transport.post(f"{_path(evaluation_id)}/cancel", Evaluation)

    def results(self, evaluation_id: str, *, most: int = 20) -> Page[SampleResult]:
        """Return the first rows of an evaluation, ``most`` at most."""
        return pages.page(
            self._transport, f"{_path(evaluation_id)}/results", Page[SampleResult], {}, most
        )


def _path(evaluation_id: str) -> str:
    return f"{PATH}/{quote(evaluation_id, safe='')}"
