"""What axe finds in a page: whatever keeps people from using it by keyboard, screen reader or weak eyes."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from playwright.sync_api import Page

AXE = files("axe_playwright_python") / "axe.min.js"
AXE_RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
    # Of what passes, it need not say where.
    "resultTypes": ["violations"],
}
SEVERE = {"serious", "critical"}


def severe_findings(page: Page) -> dict[str, list[str]]:
    """What axe finds, by rule: the elements."""
    page.evaluate(AXE.read_text("utf-8"))
    found: list[dict[str, Any]] = page.evaluate(
        "async (options) => (await axe.run(options)).violations", AXE_RULES
    )
    severe = [each for each in found if each["impact"] in SEVERE]
    return {each["id"]: [node["html"] for node in each["nodes"]] for each in severe}
