"""Example trajectories for the log."""

from hypothesis import strategies as st

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause, LeftOut
from services.contracts.rollouts.tool_runs import (
    HttpRun,
    Passage,
    ProgramRun,
    QueryHits,
    RequestFailure,
    SearchRun,
)
from services.contracts.rollouts.trajectories import (
    CallOutcome,
    FinishReason,
    MalformedCall,
    ToolCallRecord,
    Trajectory,
    Turn,
)
from services.contracts.sandbox.programs import RunStatus


def trajectory(identity: str = "traj-0-0", *, size: int = 3, text: str = "a") -> Trajectory:
    """A rollout of one turn."""
    return Trajectory(
        id=identity,
        prompt_index=0,
        messages=[{"role": "user", "content": text}],
        prompt_token_ids=[1, 2],
        response_token_ids=list(range(size)),
        response_mask=[1] * size,
        log_probs=[-0.25] * size,
        policy_versions=[0] * size,
        turns=[Turn(text=text, token_start=0, token_count=size, finish_reason="stop")],
        finish_reason=FinishReason.ANSWERED,
    )


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[JsonObject] = st.dictionaries(
    TEXT,
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBERS | TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)
_FAILURES = st.builds(
    RequestFailure, status=st.none() | st.integers(100, 599), answer=TEXT, seconds=NUMBERS
)
_PROGRAMS = st.builds(
    ProgramRun,
    language=TEXT,
    code=st.none() | TEXT,
    status=st.none() | st.sampled_from(RunStatus),
    failure=st.none() | _FAILURES,
)
_SEARCHES = st.builds(
    SearchRun,
    index=st.none() | TEXT,
    own=st.none() | st.booleans(),
    topk=st.integers(0, 9),
    queries=st.lists(
        st.builds(
            QueryHits,
            query=TEXT,
            found=st.integers(0, 9),
            passages=st.lists(st.builds(Passage, id=st.none() | TEXT, text=TEXT), max_size=2),
        ),
        max_size=2,
    ),
    failure=st.none() | _FAILURES,
)
_RUNS = _PROGRAMS | _SEARCHES | st.builds(HttpRun, failure=_FAILURES)
_CALLS = st.builds(
    ToolCallRecord,
    name=TEXT,
    arguments=st.none() | JSON,
    outcome=st.sampled_from(CallOutcome),
    reply=st.none() | TEXT,
    reply_characters=st.integers(0, 2**40),
    shown=st.none() | TEXT,
    error=st.none() | TEXT,
    cause=st.none() | st.sampled_from(InfrastructureCause),
    failures=st.integers(0, 9),
    attempts=st.integers(0, 9),
    started=NUMBERS,
    seconds=NUMBERS,
    run=st.none() | _RUNS,
)
_TURNS = st.builds(
    Turn,
    text=TEXT,
    token_start=st.integers(0, 2**31),
    token_count=st.integers(0, 2**31),
    inserted_count=st.integers(0, 2**31),
    finish_reason=st.sampled_from(["stop", "length", "abort"]),
    calls=st.lists(_CALLS, max_size=2),
    malformed=st.lists(st.builds(MalformedCall, text=TEXT, reason=TEXT), max_size=2),
    started=NUMBERS,
    seconds=NUMBERS,
)
_LEFT_OUT = st.builds(
    LeftOut, source=TEXT, cause=st.sampled_from(InfrastructureCause), message=TEXT
)
_TOKENS = st.integers(0, 2**31 - 1)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Any trajectory."""
    size = draw(st.integers(0, 5))

    def row(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=size, max_size=size))

    return Trajectory(
        id=draw(TEXT),
        prompt_index=draw(st.integers(0, 2**40)),
        sample_index=draw(st.integers(0, 2**20)),
        messages=draw(st.lists(JSON, max_size=2)),
        tools=draw(st.lists(JSON, max_size=2)),
        gold=draw(st.lists(TEXT, max_size=2)),
        extra=draw(JSON),
        prompt_token_ids=draw(st.lists(_TOKENS, max_size=5)),
        response_token_ids=row(_TOKENS),
        response_mask=row(st.integers(0, 1)),
        log_probs=draw(st.lists(NUMBERS, min_size=size, max_size=size)),
        policy_versions=row(st.integers(-1, 2**31 - 1)),
        turns=draw(st.lists(_TURNS, max_size=2)),
        finish_reason=draw(st.sampled_from(FinishReason)),
        error=draw(st.none() | TEXT),
        reward=draw(st.none() | NUMBERS),
        reward_components=draw(st.dictionaries(TEXT, NUMBERS, max_size=2)),
        reward_error=draw(st.none() | TEXT),
        left_out=draw(st.none() | _LEFT_OUT),
        infrastructure_failures=draw(st.dictionaries(TEXT, st.integers(1, 9), max_size=2)),
        plays=draw(st.integers(1, 3)),
        created_at=draw(NUMBERS),
        seconds=draw(NUMBERS),
        model_seconds=draw(NUMBERS),
        tool_seconds=draw(NUMBERS),
    )
