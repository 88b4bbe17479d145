from __future__ import annotations

import base64

import pytest

from lmk_experiments.mirror import StoreError, tracking_uri, without_credentials
from lmk_experiments.mirror.address import explain, login_of, scrub, take_login, with_driver
from lmk_experiments.profiles.schema import Profile

SECRET = "marker/Pass@word#1"
ENCODED = "marker%2FPass%40word%231"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        (f"http://me:{ENCODED}@host:5000/mlflow", "http://host:5000/mlflow"),
        ("http://marker-token@host", "http://host"),
        (f"http://me:{SECRET}@host/x", "http://host/x"),
        (f"postgresql://me:{SECRET}@db/mlflow", "postgresql://db/mlflow"),
        (f"postgresql://db/mlflow?password={ENCODED}&sslmode=require", "postgresql://db/mlflow?sslmode=require"),
        ("http://host/?access_token=marker-token#marker-token", "http://host/"),
        ("sqlite:////home/me@work/mlflow.db", "sqlite:////home/me@work/mlflow.db"),
    ],
)
def test_an_address_is_shown_without_what_must_not_be_seen(uri, shown):
    assert without_credentials(uri) == shown


def test_the_login_of_an_address_goes_to_mlflows_own_variables():
    environment = {"MLFLOW_TRACKING_TOKEN": "of another server"}
    assert login_of(f"http://me:{ENCODED}@host") == ("me", SECRET)
    assert take_login(f"http://me:{ENCODED}@host:5000", environment) == "http://host:5000"
    assert environment["MLFLOW_TRACKING_USERNAME"] == "me"
    assert environment["MLFLOW_TRACKING_PASSWORD"] == SECRET
    assert take_login("http://host:5000", (untouched := {})) == "http://host:5000"
    assert untouched == {}


@pytest.mark.parametrize("form", [SECRET, ENCODED, base64.b64encode(f"me:{SECRET}".encode()).decode()])
@pytest.mark.parametrize("where", ["uri", "environment"])
def test_no_form_of_a_secret_stays_in_a_message(form, where):
    uri = f"http://me:{ENCODED}@host" if where == "uri" else "http://host"
    environment = {} if where == "uri" else {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": SECRET}
    told = scrub(f"request to http://me:{ENCODED}@host/api failed: {form}!", uri, environment=environment)
    assert form not in told
    assert "arker" not in told
    assert told.endswith("!")


def test_a_password_that_is_not_encoded_is_refused_without_showing_it(tmp_path):
    with pytest.raises(StoreError, match=r"an @ where none belongs.*/ is %2F") as caught:
        tracking_uri(tmp_path, f"http://me:{SECRET}@host")
    assert "arker" not in str(caught.value)
    with pytest.raises(StoreError, match="a token belongs into MLFLOW_TRACKING_TOKEN") as caught:
        tracking_uri(tmp_path, "http://host/?token=marker")
    assert "arker" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("failed with error code 403 != 200. Response body: 'Invalid Host header - possible DNS", "lmk serve"),
        ("failed with error code 401 != 200. Response body: 'You are not authenticated.", "MLFLOW_TRACKING_USERNAME"),
        ("PERMISSION_DENIED: Permission denied", "LMK_EXPERIMENT_PREFIX"),
        ("failed with error code 404 != 200. Response body: '<html>", "is no MLflow server"),
        ("the response body was not in a valid JSON format. Response body: '<!doctype html>", "is no MLflow server"),
        ("SSLError(1, '[SSL: WRONG_VERSION_NUMBER] wrong version number", "http:// instead of https://"),
        ("SSLError([SSL: CERTIFICATE_VERIFY_FAILED] self-signed", "MLFLOW_TRACKING_SERVER_CERT_PATH"),
        ("The plain HTTP request was sent to HTTPS port", "https:// instead of http://"),
        ("Max retries exceeded ... Failed to establish: [Errno 111] Connection refused", "nobody listens there"),
        ("Max retries exceeded ... NameResolutionError: Failed to resolve", "the name login1 is not known here"),
        ("ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 403", "no_proxy"),
    ],
)
def test_what_is_wrong_is_said_with_its_cure(said, cure):
    assert cure in explain(RuntimeError(said), "http://login1:5000")


def test_a_driver_that_is_named_stays():
    assert with_driver("postgresql+psycopg2://db/x") == "postgresql+psycopg2://db/x"
    assert with_driver("postgres://db/x").startswith("postgresql+psycopg")
    assert with_driver("http://db/x") == "http://db/x"


@pytest.mark.parametrize(
    ("name", "value"), [("MLFLOW_TRACKING_PASSWORD", "x"), ("LMK_STORE", "http://me:x@host"), ("HF_TOKEN", "x")]
)
def test_a_profile_takes_no_secret_since_it_would_stand_in_every_script(name, value):
    with pytest.raises(ValueError, match=f"{name} holds a secret"):
        Profile(profile="mine", environment={name: value})
    assert Profile(profile="mine", environment={name: "$OF_THE_NODE"}).environment == {name: "$OF_THE_NODE"}
