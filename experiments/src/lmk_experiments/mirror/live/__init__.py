"""A job that mirrors itself while it runs. Importing this package does not import mlflow."""

from lmk_experiments.mirror.live.beside import mirrored_live

__all__ = ["mirrored_live"]
