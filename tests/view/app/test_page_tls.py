"""The page over TLS: a pair that fits is served, any other is refused in words before anything listens."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphsde.base.errors import BadInput, BadUsage
from graphsde.cli.app import app
from graphsde.view.app.serve import Place, options
from graphsde.view.app.tls import Certificate, certificate_of

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="no openssl on this machine to make a certificate with")
TOKEN = "a-token-of-some-length"


def make_pair(folder: Path, name: str) -> Certificate:
    pair = Certificate(folder / f"{name}-cert.pem", folder / f"{name}-key.pem")
    command = [str(OPENSSL), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    subprocess.run([*command, "-keyout", str(pair.key), "-out", str(pair.chain)], check=True, capture_output=True)
    return pair


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Certificate:
    return make_pair(folder, "one")


def page(*words: object, **environment: str) -> Any:
    return CliRunner().invoke(app, ["app", *map(str, words)], env={"GRAPHSDE_TOKEN": "", **environment})


def test_a_pair_that_belongs_together(pair: Certificate) -> None:
    assert pair.checked() == pair
    place = Place("0.0.0.0", 0, TOKEN, pair).checked()
    assert place.certificate == pair and place.url.startswith("https://127.0.0.1:") and not place.can_be_overheard
    assert certificate_of(pair.chain, pair.key) == pair and certificate_of(None, None) is None


def test_pairs_that_do_not(pair: Certificate, folder: Path) -> None:
    other = make_pair(folder, "other")
    with pytest.raises(BadInput, match=r"other-key\.pem is not the key of one-cert\.pem") as refusal:
        Certificate(pair.chain, other.key).checked()
    assert refusal.value.code == "E-CERTIFICATE" and refusal.value.exit_code == 65
    with pytest.raises(BadInput, match="can't be read as a certificate"):
        Certificate(pair.key, pair.chain).checked()
    (folder / "text.pem").write_text("not a certificate")
    with pytest.raises(BadInput, match="can't be read as a certificate"):
        Certificate(folder / "text.pem", pair.key).checked()
    with pytest.raises(BadInput, match="no such file") as refusal:
        Certificate(pair.chain, folder / "missing.pem").checked()
    assert refusal.value.code == "E-NOT-A-FILE"
    with pytest.raises(BadInput, match="is a folder"):
        Certificate(folder, pair.key).checked()
    with pytest.raises(BadUsage, match="--key needs --certificate"):
        certificate_of(None, pair.key)


def test_a_passphrase_is_not_asked_for(pair: Certificate, folder: Path) -> None:
    locked = folder / "locked-key.pem"
    command = [str(OPENSSL), "pkey", "-in", str(pair.key), "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(BadInput, match="has a passphrase"):
        Certificate(pair.chain, locked).checked()


def test_the_verb_refuses_in_one_line(pair: Certificate, folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    alone = page(tmp_path, "--certificate", pair.chain, "--port", 0)
    assert alone.exit_code == 2 and "--certificate needs --key" in alone.stderr
    missing = page(tmp_path, "--certificate", pair.chain, "--key", folder / "missing.pem", "--port", 0)
    assert missing.exit_code == 65 and "E-NOT-A-FILE" in missing.stderr and missing.stderr.count("\n") == 1


def test_a_token_in_the_clear_is_mentioned(pair: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    st = pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(st.App, "run", lambda self, config: told.append(config))
    monkeypatch.setattr(sys, "argv", ["graphsde"])
    for name in ("GRAPHSDE_PAGE_RUNS", "GRAPHSDE_TOKEN"):
        monkeypatch.setenv(name, "")
    words: list[object] = [tmp_path, "--port", 0, "--no-browser"]
    secure = ["--certificate", pair.chain, "--key", pair.key]
    warned = {
        "open": page(*words, "--host", "0.0.0.0", GRAPHSDE_TOKEN=TOKEN),
        "tls": page(*words, "--host", "0.0.0.0", *secure, GRAPHSDE_TOKEN=TOKEN),
        "local": page(*words, GRAPHSDE_TOKEN=TOKEN),
    }
    assert {name: result.exit_code for name, result in warned.items()} == dict.fromkeys(warned, 0)
    assert {name: "can be read by others" in result.stderr for name, result in warned.items()} == {
        "open": True, "tls": False, "local": False,
    }  # fmt: skip
    assert [config["server.sslCertFile"] for config in told] == [None, str(pair.chain.resolve()), None]


def test_the_framework_knows_the_options(pair: Certificate) -> None:
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    from streamlit.web.server.starlette.starlette_app import _validate_run_config

    _validate_run_config(options(Place(certificate=pair), browser=True))


@pytest.mark.slow
def test_a_real_server(pair: Certificate, tmp_path: Path) -> None:
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    command = [sys.executable, "-m", "graphsde", "app", str(tmp_path), "--port", "0", "--no-browser"]
    command += ["--certificate", str(pair.chain), "--key", str(pair.key)]
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "GRAPHSDE_TOKEN": TOKEN})
        try:
            address = ""
            while not address and process.poll() is None:
                found = re.search(r"https://127\.0\.0\.1:\d+", (tmp_path / "log").read_text())
                address = found[0] if found else ""
                time.sleep(0.1)
            trusting = ssl.create_default_context(cafile=str(pair.chain))
            assert _ask(process, address, trusting).code == 401  # the form for the token, over TLS
            answer = _ask(process, f"{address}/token", trusting, f"token={TOKEN}".encode())
            assert answer.code == 303 and "; Secure" in answer.headers["set-cookie"]
            with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
                urllib.request.urlopen(address, context=ssl.create_default_context(), timeout=300)
            with pytest.raises(OSError):
                urllib.request.urlopen(address.replace("https:", "http:"), timeout=300)
        finally:
            process.terminate()
            process.wait(600)
    assert "Traceback" not in (tmp_path / "log").read_text()


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        return None


def _ask(process: Any, address: str, context: ssl.SSLContext, body: bytes | None = None) -> Any:
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), _Stay())
    while process.poll() is None:
        try:
            return opener.open(address, body, timeout=300)
        except urllib.error.HTTPError as error:
            return error
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise AssertionError("the server has ended")
