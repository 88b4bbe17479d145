"""Addresses of stores: their logins, their drivers, and what is wrong where one cannot be used."""

from lmk_experiments.mirror.address.credentials import has_login, login_of, scrub, take_login, without_credentials
from lmk_experiments.mirror.address.postgres import is_postgres, with_driver
from lmk_experiments.mirror.address.trouble import StoreError, ask, check_http, explain

__all__ = [
    "StoreError",
    "ask",
    "check_http",
    "explain",
    "has_login",
    "is_postgres",
    "login_of",
    "scrub",
    "take_login",
    "with_driver",
    "without_credentials",
]
