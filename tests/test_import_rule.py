"""Who may import whom: the edges of the design, read from the source of every package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "lmk_core": ROOT / "packages/core/src/lmk_core",
    "lmk_train": ROOT / "packages/train/src/lmk_train",
    "lmk_eval": ROOT / "packages/eval/src/lmk_eval",
    "lmk_slurm": ROOT / "slurm/src/lmk_slurm",
    "lmk_experiments": ROOT / "experiments/src/lmk_experiments",
}
ALLOWED = {
    "lmk_core": set(),
    "lmk_train": {"lmk_core"},
    "lmk_eval": {"lmk_core"},
    "lmk_slurm": set(),
    "lmk_experiments": {"lmk_core", "lmk_train", "lmk_eval", "lmk_slurm"},
}
THIRD_PARTY = {
    "lmk_core": {
        *("huggingface_hub", "jaxtyping", "numpy", "safetensors", "tokenizers", "torch", "tqdm", "transformers"),
        *("sentence_transformers", "sentencex"),  # extras
    },
    "lmk_slurm": {"submitit"},
}
HEAVY = ("torch", "lightning", "transformers", "mteb", "mlflow")


def imports(file: Path) -> set[str]:
    """The top-level names that ``file`` imports anywhere, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_only_what_the_design_allows(package: str) -> None:
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files, "the package has no files: the test looks at the wrong place"
    forbidden = set(PACKAGES) - ALLOWED[package] - {package}
    wrong = {str(file.relative_to(ROOT)): sorted(imports(file) & forbidden) for file in files}
    assert {file: names for file, names in wrong.items() if names} == {}


def test_only_the_command_knows_the_command() -> None:
    folder = PACKAGES["lmk_experiments"]
    files = [file for file in folder.rglob("*.py") if "cli" not in file.relative_to(folder).parts]
    wrong = [str(file.relative_to(ROOT)) for file in files if "lmk_experiments.cli" in file.read_text(encoding="utf-8")]
    assert wrong == []


@pytest.mark.parametrize("package", THIRD_PARTY)
def test_small_packages_stay_small(package: str) -> None:
    own = {package, *sys.stdlib_module_names}
    used = set().union(*(imports(file) for file in PACKAGES[package].rglob("*.py"))) - own
    assert used <= THIRD_PARTY[package]


@pytest.mark.parametrize("folder", ["records", "grids", "configs", "datasets", "costs", "report", "statistics"])
def test_plans_and_records_need_no_heavy_library(folder: str) -> None:
    files = sorted((PACKAGES["lmk_experiments"] / folder).rglob("*.py"))
    assert files
    wrong = {file.name: sorted(imports(file) & set(HEAVY)) for file in files}
    assert {file: names for file, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["plan", "quickstart"],
        ["plan", "quickstart", "--json"],
        ["plan", "--all"],
        ["plan", "--diff", "table1", "table6"],
        ["run", "--help"],
        ["status", "--help"],
        ["report", "--help"],
    ],
    ids=" ".join,
)
def test_the_command_starts_without_heavy_libraries(arguments: list[str], tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from lmk_experiments.cli.main import main\n"
        f"sys.argv = ['lmk', *{arguments!r}]\n"
        "try:\n    main()\n"
        "except SystemExit as stop:\n    assert not stop.code, stop.code\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize(
    "module", ["lmk_core", "lmk_train", "lmk_train.config", "lmk_eval", "lmk_eval.suites", "lmk_experiments.grids"]
)
def test_light_modules_stay_light(module: str) -> None:
    program = f"import sys, {module}\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["main", "show_status", "follow", "tables", "tracking"])
def test_what_reads_records_begins_without_what_only_grids_need(module: str) -> None:
    # It takes a quarter of a second, as long as all the rest of `lmk status`.
    program = f"import sys, lmk_experiments.cli.{module}\nprint('lmk_experiments.grids' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"
