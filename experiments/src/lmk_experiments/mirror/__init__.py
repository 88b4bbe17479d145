"""Records to MLflow and back. Importing this package does not import mlflow."""

from lmk_experiments.mirror.lock import LockedError
from lmk_experiments.mirror.read import read_scores
from lmk_experiments.mirror.store import StoreError, default_uri, open_store, tracking_uri, without_credentials
from lmk_experiments.mirror.sync import SyncReport, sync
from lmk_experiments.mirror.ui import PortInUseError, UiCommand, serve, ui_command
from lmk_experiments.mirror.watch import Said, watch

__all__ = [
    "LockedError",
    "PortInUseError",
    "Said",
    "StoreError",
    "SyncReport",
    "UiCommand",
    "default_uri",
    "open_store",
    "read_scores",
    "serve",
    "sync",
    "tracking_uri",
    "ui_command",
    "watch",
    "without_credentials",
]
