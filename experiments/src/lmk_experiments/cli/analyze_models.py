"""The models of an analysis: each one looked at before any is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmk_experiments.texts import named

if TYPE_CHECKING:
    from lmk_core.pooling import PoolingConfig
    from lmk_eval.analyses import Series


def open_models(
    given: Sequence[str],
    pooling: str | None,
    granularity: str | None,
    device: str | None,
    *,
    landmarks: bool = False,
    keep: tuple[Path, int] | None = None,
) -> list[Series]:
    """Load what was given as MODEL or NAME=MODEL.

    Args:
        given: folders, or names on the hub.
        pooling: a kind, or a whole pooling as YAML; a saved model's own unless said.
        granularity: of landmarks.
        device: where the models go; a GPU where there is one unless said.
        landmarks: whether only landmarks will do: a model that is not pooled so is read so.
        keep: where results are kept and the maximum length, if so: each model gets a revision then.

    Raises:
        ValueError: a model is not there, or it is not known how to read it; nothing is loaded then.
    """
    from lmk_experiments.cli.one_model import check_model, saved_pooling

    check_devices([device] if device is not None else [])
    wanted = reading(pooling, granularity)
    names = []
    for text in given:
        name, model = named(text)
        own = wanted
        if landmarks and own is None:
            saved = saved_pooling(model)
            if saved is not None and saved.kind != "landmark":
                raise ValueError(
                    f"{model}: is pooled as {saved.kind!r}; to read it with landmarks say --granularity 32"
                )
        check_model(model, own)
        names.append((name or _short(model), model))
    _refuse_twice([name for name, _ in names])
    return [_open(name, model, wanted, device, keep) for name, model in names]


def check_devices(given: Sequence[str]) -> None:
    """See that devices are there, before anything is loaded.

    Raises:
        ValueError: naming the option, and what this machine has.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    there = ["cpu", *(f"cuda:{index}" for index in range(count))]
    if torch.backends.mps.is_available():
        there.append("mps")
    for text in given:
        try:
            device = torch.device(text)
        except RuntimeError:
            raise ValueError(f"--device {text}: no device is called so; here are: {', '.join(there)}") from None
        if device.type == "cuda" and device.index is None and count:
            continue
        if device.type != "cpu" and str(device) not in there:
            raise ValueError(f"--device {text}: this machine has no such device; here are: {', '.join(there)}")


def reading(pooling: str | None, granularity: str | None) -> PoolingConfig | None:
    """What --pooling and --granularity come to; None is the model's own.

    Raises:
        ValueError: it is not YAML, no pooling, or no granularity.
    """
    from lmk_core.pooling import PoolingConfig, PoolingConfigError
    from lmk_experiments.configs import YamlError, read_yaml

    found = None
    if pooling is not None:
        try:
            said: Any = read_yaml(pooling)[0]
            found = PoolingConfig.from_dict({"kind": said} if isinstance(said, str) else said)
        except (YamlError, PoolingConfigError) as error:
            raise ValueError(f"--pooling {pooling}: {error}") from None
    if granularity is None:
        return found
    size: Any = int(granularity) if granularity.isdecimal() else granularity
    try:
        return (found or PoolingConfig("landmark")).with_granularity(size)
    except PoolingConfigError as error:
        raise ValueError(f"--granularity {granularity}: {error}") from None


def _open(
    name: str, model: str, wanted: PoolingConfig | None, device: str | None, keep: tuple[Path, int] | None
) -> Series:
    from lmk_core import Embedder
    from lmk_eval.analyses import Series

    local = Path(model).expanduser()
    embedder = Embedder.from_pretrained(local if local.is_dir() else model, wanted, device=device)
    revision = "" if keep is None else _revision(model, embedder.pooling, *keep)
    return Series(name, embedder, model, revision)


def _revision(model: str, pooling: PoolingConfig, folder: Path, max_length: int) -> str:
    from lmk_experiments.builders import fingerprint
    from lmk_experiments.grids.identity import revision

    local = Path(model).expanduser()
    known = fingerprint(str(local.resolve()), folder) if local.is_dir() else model
    return revision(known, pooling, max_length)


def _short(model: str) -> str:
    """The last part of a path that says something: of runs/trainings/3f2a/model it is 3f2a."""
    parts = [part for part in Path(model).parts if part not in (".", "/")]
    return next((part for part in reversed(parts) if part != "model"), model)


def _refuse_twice(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)}: two models of one name; give names, such as short=PATH long=PATH")
