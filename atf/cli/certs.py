"""`atf certs dev`: throw-away certificates in a directory. It calls nobody."""

from __future__ import annotations

import os
from pathlib import Path

import click

from atf.auth.dev_certificates import ALWAYS, DAYS, dev_certificates, utc_now
from atf.errors import InvalidArgument
from atf.runtime import SystemRuntime

from .files import check_free, overwrite_flag
from .options import as_json, option
from .output import show


@click.group()
def certs() -> None:
    """Certificates for TLS."""


@certs.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@option("--dir", "DIR", "Where to write them.", name="folder", default="certs", show_default=True)
@overwrite_flag("each file")
@as_json
def dev(names: tuple[str, ...], folder: str, overwrite: bool) -> None:
    """Make a throw-away CA, a server's and a client's certificate, which hold for 30 days, to try TLS.

    NAME is a host's name or an address by which servers are called; localhost, 127.0.0.1 and ::1 are always in.
    """
    made = dev_certificates(names, utc_now(SystemRuntime().wall_us()))
    place = Path(folder)
    for name in made:
        check_free(place / name, overwrite=overwrite)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in made.items():
            _write(place / name, content)
    except OSError as error:
        raise InvalidArgument(
            f"{error.filename}: it can't be written: {error.strerror}. Name another directory: --dir"
        ) from None
    shown = {"dir": str(place), "files": [*made], "names": [*dict.fromkeys((*ALWAYS, *names))], "days": DAYS}
    show(shown, *_how_to_use(place, names))


def _write(path: Path, content: bytes) -> None:
    """One file, whole, readable by its owner alone where it is a key."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    mode = 0o600 if path.stem.endswith("-key") else 0o644
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(content)
    part.replace(path)


def _how_to_use(place: Path, names: tuple[str, ...]) -> list[str]:
    server = f"--tls-cert {place}/server.pem --tls-key {place}/server-key.pem"
    return [
        f"{place}: a CA, a server's and a client's certificate for {', '.join((*ALWAYS, *names))}; they end in {DAYS} days.",
        "They are for trying TLS, not for production: whoever has ca-key.pem can make more of them.",
        "",
        "A server with TLS, which calls others by TLS, too:",
        f"  atf server {server} --tls-ca {place}/ca.pem --auth token",
        "It asks for the certificates of its callers with:",
        f"  --auth mtls --tls-client-ca {place}/ca.pem",
        "Whoever calls it, by the SDK or a command:",
        f"  export ATF_TLS_CA={place}/ca.pem",
        f"  export ATF_TLS_CERT={place}/client.pem ATF_TLS_KEY={place}/client-key.pem    # for --auth mtls",
    ]
