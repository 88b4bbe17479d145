"""Settings of every test: no network, one thread a process, and nothing skipped silently where it must run."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Shapes and types are checked in tests. (pytest's own option for it takes one package only.)
install_import_hook(
    ["lmk_core", "lmk_train", "lmk_eval", "lmk_experiments.statistics"],
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))",
)

# Before anything imports torch or a hub client: the first import decides.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
for name in [*os.environ]:
    if name in ("LMK_ROOT", "LMK_STORE", "LMK_EXPERIMENT_PREFIX") or name.startswith("MLFLOW_"):
        del os.environ[name]  # a developer's own settings must not leak into the tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what ends in `&` so, and children inherit it: Ctrl-C could not be tested.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the same by nohup


NO_REFERENCE_DATA = "the reference data is not here: it is looked for in ../shared, or in LMK_SHARED"
"""The one reason that a test may be skipped for in CI: this data is not part of the repository."""


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tokenized texts of tests go to a folder of their own; subprocesses inherit it."""
    os.environ["LMK_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the checkout (or in ``LMK_SHARED``); without it the test is skipped."""
    found = Path(os.environ.get("LMK_SHARED", Path(__file__).parent.parent / "shared"))
    if not (found / "data").is_dir():
        pytest.skip(NO_REFERENCE_DATA)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what CI skipped; ``pytest_sessionfinish`` makes it a failure."""
    if os.environ.get("CI") and (skipped := _forbidden(terminalreporter)):
        terminalreporter.write_line(f"{skipped} tests were skipped, which CI does not allow", red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a failed run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and exitstatus == 0 and reporter and _forbidden(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _forbidden(reporter: pytest.TerminalReporter) -> int:
    """How many tests were skipped for a reason that CI does not allow."""
    return sum(NO_REFERENCE_DATA not in str(report.longrepr) for report in reporter.stats.get("skipped", []))
