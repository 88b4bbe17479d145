"""The ``lmk`` command: its verbs, and how errors reach a person."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from lmk_experiments.cli import (
    analyze,
    data,
    doctor,
    encode,
    evaluations,
    fan_out,
    fetching,
    grids,
    report,
    serving,
    steps,
    tables,
    tracking,
    upkeep,
)
from lmk_experiments.errors import WorkFailed
from lmk_slurm import SchedulerError

DEBUG_FLAG = "--debug"
# New versions of typer carry a click of their own, old ones use click itself: this is the right one of the two.
_CommandLineError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="lmk",
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "A first grid, on any laptop:  lmk run quickstart  |  what it would do:  lmk plan quickstart  |  "
        "the finished table:  lmk table quickstart.   Every verb takes --debug: a traceback with an error.   "
        "Exit codes: 0 done, 1 some work failed, 2 bad input, 130 interrupted."
    ),
)


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """Ablation grids over pooling strategies: from one YAML file to the table in the paper."""
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"lmk {installed('lmk-experiments')}")
        raise typer.Exit


grids.register(app)
tables.register(app)
report.register(app)
fan_out.register(app)
tracking.register(app)
serving.register(app)
upkeep.register(app)
steps.register(app)
data.register(app)
evaluations.register(app)
analyze.register(app)
fetching.register(app)
encode.register(app)
doctor.register(app)


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 work failed, 2 bad input, 130 interrupted."""
    arguments = [argument for argument in sys.argv[1:] if argument != DEBUG_FLAG]
    debug = DEBUG_FLAG in sys.argv[1:]
    try:
        code = app(arguments, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        code = 130
    except _CommandLineError as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        code = 0
        sys.stderr.close()
    except (WorkFailed, SchedulerError) as error:
        # What was asked for is right, but cannot be done now. A SchedulerError is an OSError too, so this comes first.
        _tell(error, debug)
        code = 1
    except (ValueError, OSError) as error:
        # Everything a user can mend is a ValueError with a place in it, or the file system's own word.
        _tell(error, debug)
        code = 2
    except Exception as error:  # noqa: BLE001 - the last line of defence: one line instead of a traceback
        _tell(error, debug, f"internal error: {type(error).__name__}: ", "\nrun again with --debug to see where")
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def as_typed(message: str, arguments: Sequence[str]) -> str:
    """What a library says of one of its arguments, said of the option that was typed.

    >>> as_typed("max_length: 1; numbers of at least 2 are valid", ["encode", "--max-length", "1"])
    '--max-length: 1; numbers of at least 2 are valid'
    >>> as_typed("max_length: 1; numbers of at least 2 are valid", ["run", "grid.yaml"])
    'max_length: 1; numbers of at least 2 are valid'
    """
    name = re.match(r"[a-z]\w*(?=:? )", message)
    if name is None:
        return message
    option = f"--{name.group().replace('_', '-').removesuffix('s')}"
    typed = next((one for one in (word.partition("=")[0] for word in arguments) if one in (option, f"{option}s")), None)
    return message if typed is None else typed + message[name.end() :]


def _tell(error: Exception, debug: bool, begin: str = "error: ", end: str = "") -> None:
    from lmk_experiments.mirror.address import scrub

    # Libraries quote addresses with their passwords, in messages and in the errors that lie behind them.
    told = traceback.format_exc() if debug else f"{begin}{as_typed(str(error), sys.argv[1:])}{end}"
    print(scrub(told.rstrip("\n"), *(word for word in sys.argv[1:] if "://" in word)), file=sys.stderr)


if __name__ == "__main__":
    main()
