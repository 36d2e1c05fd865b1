"""What modules of the dashboard compute: averages, exact JSON, and numbers as texts."""

import json
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from services.api.dashboard.assets import modules
from services.api.dashboard.bundle import bundle
from services.api.jobs.downsampled_curves import DownsampledCurve

ENTRY = """\
import { Means } from "./charts/means.js";
import { Metrics } from "./charts/metrics.js";
import { parseExactly } from "./core/exact_json.js";
import { duration, number, percent, shortPercent } from "./core/format.js";
import { interval, signedValue, value } from "./job/metric_value.js";

const numbers = { duration, number, percent, shortPercent, interval, signedValue, value };
window.made = { Means, Metrics, parseExactly, ...numbers };
"""
ON_ONE_PAGE = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def modules_page(browser: Browser) -> Iterator[Page]:
    """An empty page with the modules in `made`."""
    page = browser.new_page()
    page.route("**/*", lambda route: route.fulfill(body="", content_type="text/html"))
    page.goto("http://dashboard.test/")
    page.evaluate(bundle(modules() | {"entry.js": ENTRY}, "entry.js"))
    yield page
    page.close()


def curve_of(values: list[float], first: int = 0, points: int = 1000) -> dict[str, Any]:
    """The downsampled curve of the values of consecutive steps, a second each."""
    curve = DownsampledCurve(points)
    steps = range(first, first + len(values))
    curve.extend(steps, values, [float(step) for step in steps])
    return curve.result().model_dump()


def averages(values: list[float], weight: float) -> list[float]:
    """The bias-corrected moving average at every step."""
    found, mean, total = [], 0.0, 0.0
    for value in values:
        mean, total = weight * mean + (1 - weight) * value, weight * total + 1 - weight
        found.append(mean / total)
    return found


SMOOTHED = """([curves, events, weight]) => {
    const metrics = new made.Metrics();
    for (const loss of curves) metrics.keep({ metrics: { loss } });
    for (const [step, loss] of events) {
        metrics.add({ type: "metrics", created_at: step, data: { step, loss } });
    }
    return { line: [...metrics.smoothed("loss", "step", weight)], count: metrics.count("loss") };
}"""


@pytest.mark.parametrize(("weight", "off"), [(0.9, 0.06), (0.99, 0.02)])
def test_a_smoothed_line_is_that_of_all_steps(
    modules_page: Page, weight: float, off: float
) -> None:
    random = Random(1)
    values = [float(random.random() < 0.05) for _ in range(20_000)]
    latest, live = values[18_000:18_064], values[18_064:]
    curves = [curve_of(values[:18_064]), curve_of(latest, 18_000)]
    events = list(enumerate(live, 18_064))

    found = modules_page.evaluate(SMOOTHED, [curves, events, weight])
    truth = averages(values, weight)
    line = {int(step): value for step, value in found["line"]}
    assert found["count"] == len(values)
    assert max(line) == len(values) - 1
    assert sum(abs(value - truth[step]) for step, value in line.items()) / len(line) < off
    assert sum(line.values()) / len(line) == pytest.approx(sum(values) / len(values), abs=0.01)
    few = modules_page.evaluate(SMOOTHED, [[curve_of(values[:200])], [], weight])
    assert [value for _, value in few["line"]] == pytest.approx(truth[:200])
    risen = [0.0] * 10_000 + [1.0] * 10_000
    found = modules_page.evaluate(SMOOTHED, [[curve_of(risen)], [], weight])
    truth = averages(risen, weight)
    assert all(abs(value - truth[int(step)]) < 0.2 for step, value in found["line"])


def test_a_zoomed_line_averages_each_step_once(modules_page: Page) -> None:
    found = modules_page.evaluate(
        """() => {
            const whole = new made.Means(3000);
            for (let step = 0; step < 1000; step += 1) whole.add(step, step < 900 ? 0 : 1);
            const finer = [];
            for (let step = 0; step < 1000; step += 4) {
                finer.push({ end: step + 3, mean: step < 900 ? 0 : 1, count: 4 });
            }
            const zoomed = whole.refined(finer);
            return [whole, zoomed].map((each) => [each.count, each.smoothed(0.99).get(999)]);
        }"""
    )

    assert found == [[1000, pytest.approx(0.634, abs=1e-3)]] * 2


def test_values_that_are_not_finite_are_counted_and_times_of_a_second_are_spread(
    modules_page: Page,
) -> None:
    values = [math.nan if step >= 10_000 else 1.0 for step in range(20_000)]
    found = modules_page.evaluate(
        """async ([all, latest]) => {
            const metrics = new made.Metrics();
            window.fetch = async ({ url }) => {
                const loss = url.includes("from_step") ? latest : all;
                return new Response(JSON.stringify({ complete: false, metrics: { loss } }));
            };
            await metrics.load("job", new AbortController().signal);
            const add = (step, loss, at) => {
                metrics.add({ type: "metrics", created_at: at, data: { step, loss } });
            };
            for (const step of [19_000, 19_999, 20_000]) add(step, null, 30_000);
            for (let step = 20_001; step <= 20_040; step += 1) {
                add(step, step, 30_001 + Math.floor(step / 10));
            }
            const places = [...metrics.points("loss", "time").keys()].slice(-20);
            return { gone: metrics.gone.get("loss"), places };
        }""",
        [curve_of(values), curve_of(values[19_900:], 19_900)],
    )

    assert found["gone"] == 10_001
    places = found["places"]
    assert [place - places[0] for place in places] == pytest.approx([n / 10 for n in range(20)])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.text(max_size=5)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@ON_ONE_PAGE
@given(value=VALUES)
def test_exact_json_keeps_every_digit(modules_page: Page, value: Any) -> None:
    text = json.dumps(value)
    kept = modules_page.evaluate("(text) => JSON.stringify(made.parseExactly(text))", text)

    # Objects of JavaScript order names that are integers.
    assert json.dumps(json.loads(kept), sort_keys=True) == json.dumps(value, sort_keys=True)


@ON_ONE_PAGE
@given(share=st.floats(0, 1), other=st.floats(0, 1))
def test_a_share_is_0_or_100_percent_only_if_it_is(
    modules_page: Page, share: float, other: float
) -> None:
    text, ends = modules_page.evaluate(
        """([share, other]) => [made.percent(share),
            made.interval([share, other], (end, more) => made.value(end, true, more))]""",
        [share, other],
    )

    shown = float(text.removesuffix("%"))
    assert (shown == 0, shown == 100) == (share == 0, share == 1)
    assert shown == pytest.approx(100 * share, abs=0.051)
    if abs(share - other) > 1e-9:
        first, last = ends.split(" to ")
        assert first != last


SAID = {
    "value(0.9996, true)": "99.96%",
    "value(4 / 10_000, true)": "0.04%",
    "value(1, true)": "100.0%",
    "value(0.5, true)": "50.0%",
    "signedValue(-0.0004, true)": "-0.04%",
    "interval([0.4997, 0.5003], (end, more) => made.value(end, true, more))": "49.97% to 50.03%",
    "interval([2.00001, 2.00002], (end, more) => made.value(end, false, more))": (
        "2.00001 to 2.00002"
    ),
    "shortPercent(0.1)": "10%",
    "shortPercent(0.9996)": "99.96%",
    "number(12_445.6)": "12,446",
    "number(1234.56)": "1,235",
    "number(0.123456)": "0.1235",
    "number(123_456.7)": "1.23e+5",
    "duration(0.2)": "<1s",
    "duration(0)": "0s",
}


def test_numbers_are_said_truly(modules_page: Page) -> None:
    said = modules_page.evaluate(f"[{', '.join(f'made.{each}' for each in SAID)}]")

    assert dict(zip(SAID, said, strict=True)) == SAID
