"""The dashboard's modules as one script."""

import pytest

from services.api.dashboard.assets import build_assets
from services.api.dashboard.bundle import BundleError, bundle

MODULES = {
    "main.js": 'import { one, two as zwei } from "./views/a.js";\nlog(one, zwei);\n',
    "views/a.js": (
        "// import { nothing } from elsewhere\n"
        'import plot from "../plot.js";\n'
        "export const one = plot;\n"
        "export async function* two() {}\n"
    ),
    "plot.js": "/*\nexport function gone() {}\n*/\nclass Plot {}\nexport { Plot as default };\n",
}


def test_modules_run_once_and_after_their_imports() -> None:
    script = bundle(MODULES | {"unused.js": "export const never = 1;\n"}, "main.js")

    assert [line for line in script.splitlines() if line.startswith("const m")] == [
        "const m0 = (() => {",
        "const m1 = (() => {",
        "const m2 = (() => {",
    ]
    assert "return { default: Plot };" in script
    assert "const { default: plot } = m0;" in script
    assert "return { one: one, two: two };" in script
    assert "const { one: one, two: zwei } = m1;" in script
    assert "never" not in script
    assert "gone" not in script


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"plot.js": 'import { one } from "./views/a.js";\n'}, "circular import: main.js -> views"),
        ({"views/a.js": 'import { one } from "./b.js";\n'}, "views/a.js imports views/b.js"),
        ({"views/a.js": "export let one = 1;\n"}, "'export let one = 1;' cannot be bundled"),
        ({"views/a.js": 'import * as all from "../plot.js";\n'}, "cannot be bundled"),
        ({"views/a.js": 'import "../plot.js";\n'}, "cannot be bundled"),
    ],
)
def test_what_cannot_be_bundled_is_refused(changed: dict[str, str], message: str) -> None:
    with pytest.raises(BundleError, match=message):
        bundle(MODULES | changed, "main.js")


def test_names_of_scripts_change_with_their_content() -> None:
    one, other = build_assets(), build_assets()

    assert one == other
    assert len(one.plain) == 4
