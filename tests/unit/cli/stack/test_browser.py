"""``temper open``."""

import webbrowser

import httpx
import pytest

from temper.cli.stack.browser import open_dashboard


@pytest.mark.parametrize("opens", [True, False])
def test_the_address_is_printed_and_opened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], opens: bool
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("TEMPER_API_URL", "http://gateway:8080/")

    def start(address: str) -> bool:
        opened.append(address)
        return opens

    monkeypatch.setattr(webbrowser, "open", start)

    open_dashboard()

    said = capsys.readouterr()
    assert opened == ["http://gateway:8080/ui"]
    assert said.out == "http://gateway:8080/ui\n"
    assert ("could not start a browser" in said.err) is not opens


def test_recorded_runs_are_shown_without_a_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    def look(address: str) -> bool:
        shown.append(httpx.get(address).text)
        shown.append(httpx.get(address.replace("/ui", "/v1/models?limit=100")).text)
        raise KeyboardInterrupt

    monkeypatch.setattr(webbrowser, "open", look)

    open_dashboard(demo=True)

    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
    assert "<title>Temper</title>" in shown[0]
    assert '"base"' in shown[1]
