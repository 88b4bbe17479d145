"""A training in a process of its own: ``python preempted_training.py CONFIG FOLDER [--handler]``.

It writes what the recorder hears to ``FOLDER/heard.jsonl``. With a handler it has one for SIGUSR2 that exits, and one
for SIGTERM that returns, as submitit has them; both write their names to ``FOLDER/handled``.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from rank_trainings import FileRecorder

from lmk_train import train
from lmk_train.config import TrainConfig


def main(config: str, folder: Path, *, handlers: bool) -> None:
    def note(number: int) -> None:
        with (folder / "handled").open("a") as file:
            file.write(f"{signal.Signals(number).name}\n")

    def requeue(number: int, _: Any) -> None:
        note(number)
        sys.exit(99)

    if handlers:
        signal.signal(signal.SIGUSR2, requeue)
        signal.signal(signal.SIGTERM, lambda number, _: note(number))
    train(TrainConfig.model_validate_json(config), folder, FileRecorder(folder / "heard.jsonl"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), handlers="--handlers" in sys.argv)
