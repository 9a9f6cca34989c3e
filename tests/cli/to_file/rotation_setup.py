"""An archive for tests, with a clock of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nsq_anyio.cli.to_file.encodings import Encoding
from nsq_anyio.cli.to_file.file_names import NameFormat
from nsq_anyio.cli.to_file.rotation import FileOptions, RotatingFile, Rotation


class Setup:
    """An archive with a clock of its own."""

    def __init__(self, directory: Path) -> None:
        self.output = directory / "output"
        self.now = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def seconds(self) -> float:
        return self.now.timestamp()

    def archive(
        self,
        *,
        rotation: Rotation | None = None,
        encoding: Encoding | None = None,
        work: Path | None = None,
        skip_empty_files: bool = False,
        filename_format: str = "<TOPIC>.<DATETIME><REV>",
    ) -> RotatingFile:
        options = FileOptions(
            output_dir=self.output,
            work_dir=work or self.output,
            encoding=encoding,
            rotation=rotation or Rotation(),
            skip_empty_files=skip_empty_files,
        )
        suffix = encoding.suffix if encoding else ""
        names = NameFormat(filename_format, "%H", "", suffix, options.numbered).of_topic("t")
        return RotatingFile(names, options, clock=lambda: self.now, monotonic=self.seconds)

    def files(self, directory: Path | None = None) -> dict[str, bytes]:
        directory = directory or self.output
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in sorted(directory.rglob("*"))
            if path.is_file()
        }


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup(tmp_path)
