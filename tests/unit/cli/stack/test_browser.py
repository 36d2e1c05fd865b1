"""``temper open``."""

import webbrowser

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
