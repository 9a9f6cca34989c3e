"""Names that replace nothing."""

from pathlib import Path

from nsq_anyio.files import link_exclusively


def test_a_link_takes_a_free_name_only(tmp_path: Path) -> None:
    source, target, taken = tmp_path / "source", tmp_path / "target", tmp_path / "taken"
    source.write_text("ours")
    taken.write_text("theirs")
    assert link_exclusively(source, target)
    assert target.read_text() == "ours"
    assert not link_exclusively(source, taken)
    assert taken.read_text() == "theirs"


def test_a_link_that_is_there_already_counts_as_made(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("ours")
    target.hardlink_to(source)
    assert link_exclusively(source, target)
