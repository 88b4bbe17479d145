"""A team's MLflow server: the command that works on a cluster, and whether what it started can be reached.

Importing this package does not import mlflow.
"""

from lmk_experiments.serving.check import CheckError, check_server
from lmk_experiments.serving.command import ServerCommand, server_command
from lmk_experiments.serving.hosts import allowed_hosts, names_of_this_machine
from lmk_experiments.serving.users import ServeError

__all__ = [
    "CheckError",
    "ServeError",
    "ServerCommand",
    "allowed_hosts",
    "check_server",
    "names_of_this_machine",
    "server_command",
]
