"""A driver's messages become the response, within the output budget."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from services.contracts.sandbox.programs import OutputPiece
from services.contracts.sandbox.sessions import CellResult, CellStatus
from services.sandbox.execution import Stream
from services.sandbox.sessions.driver import (
    CellDisplay,
    Message,
    Printed,
    ProtocolBroken,
    Raised,
    Representation,
    read_message,
)
from services.sandbox.sessions.outputs import CellOutputs, OutputBudget

BIG = 1 << 20
PRINTED = Printed(type="stream", name=Stream.STDOUT)


def shown(kind: str, content: bytes, *, is_json: bool = False) -> tuple[CellDisplay, bytes]:
    item = Representation.model_validate({"type": kind, "json": is_json, "size": len(content)})
    return CellDisplay(type="display", items=[item]), content


@given(pieces=st.lists(st.binary(min_size=1)))
def test_bytes_become_text_once_however_they_are_split(pieces: list[bytes]) -> None:
    told: list[str] = []

    def listen(name: str, data: BaseModel) -> None:
        assert name == Stream.STDOUT
        assert isinstance(data, OutputPiece)
        told.append(data.text)

    outputs = CellOutputs(OutputBudget(BIG, BIG, BIG), listen)
    for piece in pieces:
        outputs.take(PRINTED, piece)
    outputs.close()
    assert outputs.text(Stream.STDOUT) == b"".join(pieces).decode(errors="replace")
    assert "".join(told) == outputs.text(Stream.STDOUT)


def test_cells_can_share_a_budget() -> None:
    budget = OutputBudget(stdout=10, stderr=10, display=10)
    CellOutputs(budget).take(PRINTED, b"12345678")
    with pytest.raises(ProtocolBroken):
        CellOutputs(budget).take(PRINTED, b"12345678")


@pytest.mark.parametrize("content", [b"[NaN]", b"[" * 10_000 + b"]" * 10_000, b"{", b'"\\ud800"'])
def test_non_standard_json_is_left_out(content: bytes) -> None:
    outputs = CellOutputs(OutputBudget(BIG, BIG, BIG))
    outputs.take(*shown("application/json", content, is_json=True))
    assert outputs.display == []
    assert outputs.cut == {"display"}


@given(value=st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=20))
def test_json_displays_are_parsed(value: object) -> None:
    outputs = CellOutputs(OutputBudget(BIG, BIG, BIG))
    outputs.take(*shown("application/json", json.dumps(value).encode(), is_json=True))
    assert outputs.display == [{"application/json": value}]
    answer = CellResult(status=CellStatus.OK, display=outputs.display).model_dump_json()
    assert json.loads(answer)["display"] == [{"application/json": value}]


@given(st.binary() | st.text().map(str.encode))
def test_every_header_is_parsed_or_rejected(header: bytes) -> None:
    with pytest.raises(ProtocolBroken):
        read_message(header)


@given(
    st.builds(
        Raised, type=st.just("error"), ename=st.text(max_size=9), evalue=st.text(), traceback=...
    )
)
def test_error_responses_are_forwarded_unchanged(message: Message) -> None:
    assert read_message(message.model_dump_json().encode()) == message
