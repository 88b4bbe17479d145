"""What a kill costs: `lmk_train` beside a plain Lightning module with a `ModelCheckpoint`, killed at the same step.

Run: ``python benchmarks/resume.py [--repetitions N] [--json FILE]``. Each trains undisturbed, and once more with kill
-9 at a step between two checkpoints and the same command again. The cost is what the two parts took together, less
what the undisturbed training took: mostly that a process starts twice, and the steps since the checkpoint. The peer
resumes as Lightning's own documentation says, with ``ckpt_path``; its data begins at another row of the epoch then,
and ours goes on exactly. Both go on from the last checkpoint (checked).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from suite.measuring import Report, Taken, note, options
from suite.result import Result, Side

ROWS, BATCH, EVERY, LENGTH = 60, 8, 5, 64
STEPS, KILLED_AT = 13, 8
LEARNING_RATE, TEMPERATURE = 1e-3, 0.05
GOES_ON = "after the kill ours is the training that it would have been; the peer's rows are others"


def main() -> None:
    parser = options(__doc__, repetitions=3)
    parser.add_argument("--here", nargs=2, metavar=("WHO", "FOLDER"), help="train: `ours` or `peer`")
    given = parser.parse_args()
    if given.here:
        who, folder = given.here
        {"ours": ours, "peer": peer}[who](Path(folder))
        return
    report = Report(given.json)
    extra: dict[str, Taken] = {"ours": Taken(), "peer": Taken()}
    whole: dict[str, Taken] = {"ours": Taken(), "peer": Taken()}
    differ: dict[str, list[float]] = {"ours": [], "peer": []}
    lost: set[int] = set()
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        for who in extra:
            # Not counted: the first imports from the disk, and the texts that ours tokenizes once for all trainings.
            note(f"{who}, not counted")
            child(Path(name), Path(name) / f"{who}-first", who)
        for number in range(1 if given.quick else given.repetitions):
            for who in ("ours", "peer") if number % 2 else ("peer", "ours"):
                note(f"repetition {number + 1}: {who}")
                steps, apart = once(Path(name), f"{who}-{number}", who, whole[who], extra[who])
                lost.add(steps)
                differ[who].append(apart)
    names = {"ours": "lmk_train", "peer": "Lightning, ckpt_path"}
    steps = " or ".join(map(str, sorted(lost)))
    exact = "the same bits" if max(differ["ours"]) == 0 else f"{max(differ['ours']):.0e} apart"
    same = f"{steps} steps lost by both; losses after it: ours {exact}, the peer's {max(differ['peer']):.1g} apart"
    sides = {who: extra[who].side(names[who]) for who in extra}
    case = f"kill -9 at step {KILLED_AT} of {STEPS}, extra time"
    report.add(Result("resume", case, sides["ours"], sides["peer"], "s", same=same, headline=True, remark=GOES_ON))
    undisturbed: dict[str, Side] = {who: whole[who].side(names[who]) for who in whole}
    case = f"{STEPS} steps undisturbed, from start to saved model"
    remark = "ours also writes what makes a resumed training the same one"
    report.add(Result("resume", case, undisturbed["ours"], undisturbed["peer"], "s", remark=remark))


def prepare(folder: Path) -> None:
    """A small model, and rows of a query and a passage."""
    from encode import build_model, library_words

    words = library_words()
    build_model(folder / "model", words)
    rows = [
        {"query": " ".join(words[100 * row : 100 * row + 8]), "pos": [" ".join(words[100 * row : 100 * row + 60])]}
        for row in range(ROWS)
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")


def once(place: Path, name: str, who: str, whole: Taken, extra: Taken) -> tuple[int, float]:
    """One undisturbed training and one that is killed; the steps lost, and how far the losses after it are apart."""
    calm: dict[int, float] = whole.add(lambda: child(place, place / f"{name}-calm", who))
    broken = Taken()
    broken.add(lambda: child(place, place / f"{name}-killed", who, kill_at=KILLED_AT))
    after: dict[int, float] = broken.add(lambda: child(place, place / f"{name}-killed", who))
    assert min(after) == KILLED_AT // EVERY * EVERY + 1, f"{who} went on with step {min(after)}"
    assert max(after) == max(calm), f"{who} ended at step {max(after)}"
    extra.processor.append(sum(broken.processor) - whole.processor[-1])
    extra.clock.append(sum(broken.clock) - whole.clock[-1])
    return KILLED_AT + 1 - min(after), max(abs(after[step] - calm[step]) for step in after)


def child(place: Path, folder: Path, who: str, kill_at: int | None = None) -> dict[int, float]:
    """A training in a process of its own; the loss of each step that it has said."""
    command = [sys.executable, __file__, "--here", who, str(folder)]
    losses: dict[int, float] = {}
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=place)
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("STEP "):
                _, step, loss = line.split()
                losses[int(step)] = float(loss)
                if int(step) == kill_at:
                    process.kill()
                    break
        process.communicate()
        errors.seek(0)
        if process.returncode and kill_at is None:
            sys.exit(f"{who}: exit code {process.returncode}: {errors.read()[-1500:]}")
    return losses


class Saying:
    """A recorder that says each step."""

    def event(self, kind: str, **fields: Any) -> None: ...

    def metrics(self, values: dict[str, float], step: int) -> None:
        if "train/loss" in values:
            print(f"STEP {step} {values['train/loss']!r}", flush=True)

    def progress(self, done: int, total: int, unit: str = "step") -> None: ...


def ours(folder: Path) -> None:
    """`lmk_train.train`; run in the folder with the rows and the model."""
    import torch

    from lmk_train import TrainConfig, train

    torch.set_num_threads(1)
    config = {
        "model": {"path": "model"},
        "pooling": {"kind": "mean"},
        "data": {
            "train": ["rows.jsonl"],
            "cache": "cache",
            "negatives": 0,
            "query_max_length": LENGTH,
            "passage_max_length": LENGTH,
        },
        "optim": {"steps": STEPS, "batch_size": BATCH, "learning_rate": LEARNING_RATE, "warmup_steps": 0},
        "loss": {"temperature": TEMPERATURE},
        "runtime": {"accelerator": "cpu", "threads": 1, "log_every": 1, "checkpoint_every": EVERY},
    }
    train(TrainConfig.model_validate(config), folder, Saying())


def peer(folder: Path) -> None:
    """A plain Lightning module, as its documentation has them; run in the folder with the rows and the model."""
    import lightning as L  # noqa: N812
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint
    from torch.nn.functional import cross_entropy, normalize
    from torch.utils.data import DataLoader
    from transformers import AutoModel, AutoTokenizer

    torch.set_num_threads(1)
    L.seed_everything(0)

    class Contrastive(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = AutoModel.from_pretrained("model").train()

        def embed(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
            states = self.encoder(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            return normalize((states * mask).sum(1) / mask.sum(1), dim=-1)

        def training_step(self, batch: Any) -> torch.Tensor:
            queries, passages = map(self.embed, batch)
            loss = cross_entropy(queries @ passages.T / TEMPERATURE, torch.arange(len(queries)))
            self.loss = loss.detach()
            return loss

        def on_train_batch_end(self, *_: Any) -> None:
            print(f"STEP {self.global_step} {float(self.loss)!r}", flush=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
            schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    tokenizer = AutoTokenizer.from_pretrained("model")

    def collate(rows: Sequence[dict[str, Any]]) -> list[Any]:
        texts = [row["query"] for row in rows], [row["pos"][0] for row in rows]
        cut: dict[str, Any] = {"padding": True, "truncation": True, "max_length": LENGTH, "return_tensors": "pt"}
        return [dict(tokenizer(one, return_token_type_ids=False, **cut)) for one in texts]

    lines = Path("rows.jsonl").read_text(encoding="utf-8").splitlines()
    loader = DataLoader(
        [json.loads(line) for line in lines], batch_size=BATCH, shuffle=True, drop_last=True, collate_fn=collate
    )
    keep = ModelCheckpoint(folder, every_n_train_steps=EVERY, save_last=True)
    trainer = L.Trainer(
        max_steps=STEPS,
        accelerator="cpu",
        callbacks=[keep],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    model, last = Contrastive(), folder / "last.ckpt"
    trainer.fit(model, loader, ckpt_path=last if last.exists() else None)
    model.encoder.save_pretrained(folder / "model")


if __name__ == "__main__":
    main()
