"""The metrics of several processes as one text."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client")

from nsq_anyio.cli.run.supervisor import merged

FIRST = """\
# HELP nsq_a_total Of a.
# TYPE nsq_a_total counter
nsq_a_total{topic="t"} 3.0
# HELP nsq_b Of b.
# TYPE nsq_b histogram
nsq_b_bucket{le="1.0"} 1.0
nsq_b_bucket{le="+Inf"} 2.0
nsq_b_count 2.0
nsq_b_sum 1.5
"""
SECOND = """\
# HELP nsq_a_total Of a.
# TYPE nsq_a_total counter
nsq_a_total{topic="t"} 4.0
# HELP nsq_c Of c, "quoted" \\\\ and more.
# TYPE nsq_c gauge
nsq_c{name="a\\"b\\\\c\\nd"} 1.0
"""


def test_each_sample_has_its_process_and_each_family_one_head() -> None:
    text = merged({0: FIRST, 1: SECOND}).decode()
    assert text.count("# TYPE nsq_a_total counter") == 1
    for line in (
        'nsq_a_total{process="0",topic="t"} 3.0',
        'nsq_a_total{process="1",topic="t"} 4.0',
        'nsq_b_bucket{le="+Inf",process="0"} 2.0',
        'nsq_b_sum{process="0"} 1.5',
        'nsq_c{name="a\\"b\\\\c\\nd",process="1"} 1.0',
    ):
        assert line in text.splitlines()


def test_no_process_has_no_metrics() -> None:
    assert merged({}) == b""


def test_a_label_of_the_program_stays() -> None:
    heads = "# HELP jobs Of jobs.\n# TYPE jobs gauge\n"
    text = heads + 'jobs{process="resize"} 1.0\njobs{process="scale",exported_process="x"} 2.0\n'
    lines = merged({0: text, 1: text}).decode().splitlines()
    for number in (0, 1):
        assert f'jobs{{exported_process="resize",process="{number}"}} 1.0' in lines
        assert (
            f'jobs{{exported_exported_process="scale",exported_process="x",process="{number}"}} 2.0' in lines
        )
