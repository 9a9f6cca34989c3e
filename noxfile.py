"""Everything that must hold before a change is merged: ``nox`` runs it all, ``nox -l`` lists the sessions."""

import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"

GROUPS = nox.project.load_toml("pyproject.toml")
PACKAGE = ("-e", ".[trio,cli,http2,zstd]")
# A test that is over its limit ends its worker; xdist can wait for ever for what the worker had left.
ON_ALL_CORES = ("-n", "auto", "--max-worker-restart", "0", "--dist", "worksteal")
BY_FILE = (*ON_ALL_CORES[:-1], "loadfile")
WITHOUT_OTHER_SESSIONS = tuple(f"--ignore=tests/{name}" for name in ("cli", "interop", "spark"))
# uvloop and Trio take few branches that asyncio's own loop does not, and recording takes time. Where a signal
# handler raises within coverage's own code, its lock is held for ever; and benchmarks count what Python does.
NOT_RECORDED = "uvloop or trio or endings or interrupted_by_a_signal or benchmarks"
# Where other sessions or the wire matrix cover uvloop, asyncio's own loop stands for both.
NOT_ON_UVLOOP = ("-k", "not uvloop")
UVLOOP_ON_THE_WIRE = ("-k", "not uvloop or test_wire_matrix")
# No test lasts until Java's better compiler has paid off.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
# A signal ends a test that waits for Java, and leaves the worker to the next one.
NEXT_TEST_GOES_ON = ("-o", "timeout_method=signal")
WITH_SPARK = ("-e", ".[trio,cli,http2,zstd,spark]")


def group(name: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of pyproject.toml."""
    return nox.project.dependency_groups(GROUPS, name)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the format of the code."""
    session.install(*group("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types, and that the public API has all of them."""
    session.install(*WITH_SPARK, *group("typing"))
    session.run("mypy")
    session.run("pyright")
    session.run("pyright", "--verifytypes", "nsq_anyio", "--ignoreexternal")


@nox.session
def tests(session: nox.Session) -> None:
    """Run all tests that need nothing but Python, and record which branches of the package they take."""
    session.install(*PACKAGE, *group("test"), *group("coverage"))
    if not session.posargs:
        session.run("coverage", "erase")
    run_recorded(session, "tests", *WITHOUT_OTHER_SESSIONS)


@nox.session
def commands(session: nox.Session) -> None:
    """Run the tests of the command line; most of them start a process, so all cores have work."""
    session.install(*PACKAGE, *group("test"), *group("coverage"))
    run_recorded(session, "tests/cli")


@nox.session
def coverage(session: nox.Session) -> None:
    """Report the branches that `tests` and `commands` have taken, and fail below the floor."""
    session.install(*group("coverage"))
    session.run("coverage", "combine")
    session.run("coverage", "report")


@nox.session
def plain_streams(session: nox.Session) -> None:
    """Run the tests of connections on AnyIO's own streams, which serve where no socket is used directly."""
    session.install(*PACKAGE, *group("test"))
    chosen = [f"tests/{name}" for name in ("connection", "consumer", "producer")]
    switch = {"NSQ_ANYIO_STREAMS": "anyio"}
    session.run("pytest", *(session.posargs or [*chosen, *NOT_ON_UVLOOP, *ON_ALL_CORES]), env=switch)


@nox.session(venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """Run the tests that a library's older releases can break with the lowest that pyproject.toml allows."""
    session.install("--resolution=lowest-direct", *PACKAGE, *group("test"))
    without_libraries = [f"--ignore=tests/{name}" for name in ("policy", "benchmarks", "servers")]
    run_tests(session, *NOT_ON_UVLOOP, *without_libraries)
    if not session.posargs:
        names = [
            "common_flags",
            "config_file",
            "connection_flags",
            "stat_rows",
            "to_http_connections",
            "to_http_answers",
        ]
        session.run("pytest", *[f"tests/cli/test_{name}.py" for name in names], *ON_ALL_CORES)


@nox.session(python=["3.12", "3.13", "3.14"], default=False)
def pythons(session: nox.Session) -> None:
    """Run the same tests with the other Python releases."""
    session.install(*PACKAGE, *group("test"))
    run_tests(session)


@nox.session(venv_backend="none")
def servers(session: nox.Session) -> None:
    """Build the real NSQ programs into .nox/servers/bin."""
    session.run(sys.executable, "tests/servers/build.py")


@nox.session(requires=["servers"])
def interop(session: nox.Session) -> None:
    """Run one suite against the embedded and the real servers."""
    session.install(*PACKAGE, *group("test"))
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    # Most of the time they wait for servers, so all cores together do; how fast it is gets measured alone.
    measured = [*Path("tests/interop").glob("*_speed.py")]
    measured += [Path("tests/interop", name) for name in ("test_million.py", "test_publish_rate.py")]
    apart = [f"--ignore={path}" for path in measured]
    session.run("pytest", "tests/interop", *apart, *UVLOOP_ON_THE_WIRE, *ON_ALL_CORES)
    session.run("pytest", *map(str, measured), *NOT_ON_UVLOOP)


@nox.session(requires=["servers"], default=False)
def foreign_suites(session: nox.Session) -> None:
    """Run the test suites of other clients on both kinds of servers; Go and npm have to be there."""
    session.install(*PACKAGE, *group("test"))
    session.run("python", "-m", "tests.foreign", *session.posargs)


@nox.session(requires=["servers"])
def spark(session: nox.Session) -> None:
    """Run the tests of Spark against the real and the embedded nsqd; Java 17 or later must be there."""
    session.install(*WITH_SPARK, *group("spark"))
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    # Each worker has a JVM of its own; how fast it is gets measured without the others.
    speed = "tests/spark/jvm/test_speed.py"
    chosen = ["tests/spark", f"--ignore={speed}", "tests/test_exports.py"]
    session.run("pytest", *chosen, *BY_FILE, *NEXT_TEST_GOES_ON, env=QUICK_JAVA)
    session.run("pytest", speed)


@nox.session(venv_backend="uv", requires=["servers"])
def spark_lowest(session: nox.Session) -> None:
    """Run those that Spark's own releases can break with the oldest PySpark that pyproject.toml allows.

    Against the real nsqd alone: which of the two it is makes no difference to Spark.
    """
    session.install("--resolution=lowest-direct", *WITH_SPARK, *group("test"))
    names = ["batch", "stream", "write"]
    files = [f"tests/spark/jvm/test_{name}.py" for name in names]
    chosen = [*files, "-k", "not embedded", *BY_FILE, *NEXT_TEST_GOES_ON]
    session.run("pytest", *(session.posargs or chosen), env=QUICK_JAVA)


@nox.session(requires=["servers"], default=False)
def bench(session: nox.Session) -> None:
    """Measure this client beside others, for hours; `nox -s bench -- --quick` for a first look."""
    session.install(*PACKAGE, *group("bench"))
    session.run("python", "-m", "tests.benchmarks", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation."""
    session.install(*PACKAGE, *group("docs"))
    session.run("sphinx-build", "-W", "-n", "-b", "html", "docs", "docs/_build/html")


def run_tests(session: nox.Session, *options: str) -> None:
    """Run the tests of the package alone, or what `nox -s SESSION -- ...` names."""
    chosen = session.posargs or ["tests", *WITHOUT_OTHER_SESSIONS, *ON_ALL_CORES, *options]
    session.run("pytest", *chosen)


def run_recorded(session: nox.Session, *chosen: str) -> None:
    """Run each of the chosen tests once: those that may be recorded with coverage, then the others.

    Or run what `nox -s SESSION -- ...` names, without a record.
    """
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    session.run("coverage", "run", "-m", "pytest", *chosen, "-k", f"not ({NOT_RECORDED})", *ON_ALL_CORES)
    session.run("pytest", *chosen, "-k", NOT_RECORDED, *ON_ALL_CORES)
