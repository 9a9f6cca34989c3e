"""The pytest plugin, in projects of its users."""

from __future__ import annotations

import pytest

from .projects import PLAIN, PLUGINS, project, run

__all__ = ["project"]

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(120)


def test_plain_tests(project: pytest.Pytester) -> None:
    run(project, PLAIN).assert_outcomes(passed=7)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_async_tests(project: pytest.Pytester, plugin: str) -> None:
    source, passed = PLUGINS[plugin]
    run(project, source).assert_outcomes(passed=passed)


def test_the_workers_of_xdist(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(number, nsqd, nsqlookupd):
            nsqd.sync.publish("orders", b"%d" % number)
            assert [each.payload for each in nsqd.sync.messages("orders", count=1)] == [b"%d" % number]
        """,
        "-n",
        "2",
    )
    result.assert_outcomes(passed=6)


def test_a_project_that_does_not_use_it_pays_nothing(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        import sys

        def test_modules():
            names = {name for name in sys.modules if name.partition(".")[0] in {"nsq_anyio", "httpx", "h11"}}
            assert names == {
                "nsq_anyio", "nsq_anyio.lazy_imports", "nsq_anyio.testing", "nsq_anyio.testing.pytest_plugin",
                "nsq_anyio.version",
            }

        def test_threads():
            import threading
            assert threading.active_count() == 1
        """,
        "-p",
        "no:timeout",
    )
    result.assert_outcomes(passed=2)


def test_no_async_plugin_is_needed(project: pytest.Pytester) -> None:
    source = "def test_it(nsqd):\n    nsqd.sync.tap('orders')\n"
    options = [f"-pno:{name}" for name in ("anyio", "asyncio", "trio")]
    project.makefile(".ini", pytest="[pytest]\nfilterwarnings = error\n")
    run(project, source, *options).assert_outcomes(passed=1)


def test_fixtures_of_the_project_win(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def nsqlookupd():
            return "http://lookup.example.com:4161"

        @pytest.fixture(scope="module")
        def nsq_cluster(nsq_servers):
            with nsq_servers(nsqds=1, nsqlookupds=0) as cluster:
                yield cluster
        """
    )
    result = run(
        project,
        """
        def test_one(nsqlookupd, nsqd, nsq_cluster):
            assert nsqlookupd == "http://lookup.example.com:4161"
            nsqd.sync.publish("orders", b"1")
            nsq_cluster.sync.publish("orders", b"1")

        def test_two(nsq_cluster):
            nsq_cluster.sync.assert_published("orders", b"1")
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_marker_that_is_not_valid_fails_its_test(project: pytest.Pytester) -> None:
    result = run(
        project,
        """
        import pytest

        @pytest.mark.nsqd_options(msg_timeout=-1)
        def test_range(nsqd): ...

        @pytest.mark.nsq_cluster(3)
        def test_position(nsq_cluster): ...
        """,
    )
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        ["*msg_timeout=-1 is not valid: use*", "*nsq_cluster(3,)*: use keyword arguments*"]
    )


def test_a_directory_without_servers_is_refused(project: pytest.Pytester) -> None:
    result = run(project, "def test_it(): ...", f"--nsq-real={project.path}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--nsq-real: */nsqd is missing: name the directory that has nsqd"])


def test_the_markers_and_fixtures_are_described(project: pytest.Pytester) -> None:
    markers = project.runpytest_subprocess("--markers")
    markers.stdout.fnmatch_lines(["@pytest.mark.nsq_cluster(*): how many*"])
    fixtures = project.runpytest_subprocess("--fixtures").stdout
    names = ["nsqd", "nsqlookupd", "nsq_cluster", "nsq_fault_proxy"]
    fixtures.fnmatch_lines_random([f"{name} -- *" for name in names])
    fixtures.fnmatch_lines(["*An `Nsqd` for one test*"])
