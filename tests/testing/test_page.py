"""The tests on the page about testing pass, as a project of a user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nsq_anyio.testing import pytest_plugin

from .projects import project

__all__ = ["project"]

pytest_plugins = ["pytester"]

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
FILES = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(120)
def test_the_tests_of_the_page_pass(project: pytest.Pytester) -> None:
    for number, (name, source) in enumerate(FILES):
        directory = project.mkdir(f"block{number}")
        (directory / name).write_text(source, encoding="utf-8")
    assert len(FILES) == PAGE.read_text("utf-8").count("```python") > 8
    tests = sum(source.count("def test_") for _, source in FILES)
    result = project.runpytest_subprocess("--import-mode=importlib")
    both_backends = 3
    result.assert_outcomes(passed=tests + both_backends)


def test_each_fixture_is_on_the_page() -> None:
    names = {name for name in pytest_plugin.__all__ if not name.startswith("pytest_")}
    assert names == set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text("utf-8"), re.MULTILINE))
