"""Patterns of Go, and what they match there."""

from __future__ import annotations

NAMES = ["clicks", "app.login", "A", "a-b", "x_1", "..", "b" * 40 + "-", "orders#ephemeral"]
MATCHES = {
    "": NAMES,
    "app": ["app.login"],
    r"^app\.": ["app.login"],
    "^[[:alpha:]]+$": ["clicks", "A"],
    "^[[:^alpha:]]+$": [".."],
    r"\pN": ["x_1"],
    r"^\p{Lu}": ["A"],
    r"s\z": ["clicks"],
    r"\Q..\E": [".."],
    r"^\x{61}-": ["a-b"],
    "(?i)^a": ["app.login", "A", "a-b"],
    "(?P<first>x)_": ["x_1"],
    "(?<first>x)_": ["x_1"],
    "(?U)^c.+s$": ["clicks"],
    r"^([a-z]+\.?)+$": ["clicks", "app.login"],
    r"\d": ["x_1"],
    "#ephemeral$": ["orders#ephemeral"],
    "^a{1,1000}-": ["a-b"],
}
"""By pattern, which of `NAMES` it is found in."""
