"""What the sessions of nox need is installed, or listed."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from .programs import NEEDS, main

SESSIONS = ["lint", "tests", "codec", "browser", "storages", "spark", "spark_lowest", "docs"]
PACKAGES = (
    "chromium-headless-shell zsh fish redis-server prometheus gcc python3-dev default-jre-headless maven "
    "nodejs npm"
)


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory in PATH, which is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["programs.py", *SESSIONS])

    def get_path(name: str) -> str:
        del name
        return str(tmp_path)

    monkeypatch.setattr(sysconfig, "get_path", get_path)
    return tmp_path


def program(path: Path, text: str = "") -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_what_is_missing_is_listed_with_the_ways_out() -> None:
    with pytest.raises(SystemExit) as ended:
        main()
    said = str(ended.value.code)
    assert all(f"  {need.name}, for " in said for need in NEEDS)
    assert f"  sudo apt-get update && sudo apt-get install -y {PACKAGES}\n" in said
    assert said.endswith("\n  nox -s lint tests docs")


def test_what_is_there_is_not_listed(path: Path) -> None:
    names = "google-chrome cc fish redis-server promtool java mvn node npm Python.h"
    for name in names.split():
        program(path / name)
    with pytest.raises(SystemExit) as ended:
        main()
    assert "install -y zsh\n" in str(ended.value.code)
    assert f"nox -s {' '.join(SESSIONS)}" in str(ended.value.code)
    program(path / "zsh")
    main()


@pytest.mark.skipif(sys.platform == "win32", reason="a script stands for apt-get")
def test_root_installs_what_is_missing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    names = "chromium zsh fish redis-server promtool cc Python.h java mvn node npm"
    making = f'for name in {names}; do : > "{path}/$name"; /bin/chmod +x "{path}/$name"; done'
    program(path / "apt-get", f'echo "$@" >> "{path}/called"\n[ "$1" = update ] || {{ {making}; }}')
    main()
    assert (path / "called").read_text() == f"update -qq\ninstall -qq -y {PACKAGES}\n"
    (path / "fish").unlink()
    program(path / "apt-get", "exit 100")
    with pytest.raises(SystemExit, match="fish"):
        main()
