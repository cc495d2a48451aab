"""Bringing the program to the VM: one function for each kind, in a table."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import urllib.error
from pathlib import Path
from typing import Callable, Dict

from tpu_recovery.vm.backoff import delays
from tpu_recovery.vm.failures import SetupFailed
from tpu_recovery.vm.google_api import GoogleApi
from tpu_recovery.vm.handoff import Handoff
from tpu_recovery.vm.log import log
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.unpack import ArchiveUnreadable, unpack

Pause = Callable[[float], None]
"""Waits that many seconds; raises Interrupted as soon as what is being prepared is not wanted any more."""

_CHUNK = 1024 * 1024  # bytes


def fetch(handoff: Handoff, home: Path, places: Places, google: GoogleApi, pause: Pause) -> Path:
    """Bring the program here, if it is not here yet; returns the directory that its command runs in.

    ``home`` is the home directory of the user who runs it. Raises SetupFailed and Interrupted.
    """
    return _FETCH[handoff.program.kind](handoff, home, places, google, pause)


def _fetch_none(_handoff: Handoff, home: Path, _places: Places, _google: GoogleApi, _pause: Pause) -> Path:
    """The user's startup script brings the program, wherever it likes."""
    return home


def _fetch_archive(handoff: Handoff, _home: Path, places: Places, google: GoogleApi, pause: Pause) -> Path:
    """Directories are named by digest and appear complete, so that one that is there needs no second look."""
    program = handoff.program
    directory = places.programs / program.sha256
    if directory.is_dir():
        return directory
    places.programs.mkdir(parents=True, exist_ok=True)
    workspace = places.programs / "fetching"
    shutil.rmtree(str(workspace), ignore_errors=True)  # left by a runner that did not get to the end
    (workspace / "content").mkdir(parents=True)
    _download(handoff, workspace / "archive", google, pause)
    try:
        unpack(workspace / "archive", workspace / "content")
    except ArchiveUnreadable as error:
        raise SetupFailed("archive-unreadable", f"{program.archive} cannot be unpacked: {error}") from error
    (workspace / "content").rename(directory)
    shutil.rmtree(str(workspace))
    return directory


def _download(handoff: Handoff, into: Path, google: GoogleApi, pause: Pause) -> None:
    program = handoff.program
    crashes = handoff.crashes
    for wait in [*delays(crashes.first_backoff, crashes.longest_backoff), None]:
        try:
            digest = _copy(program.archive, into, google, pause)
            break
        except urllib.error.HTTPError as error:
            error.close()
            why = f"{program.archive} cannot be read: {error.code} {error.reason}"
            if wait is None or error.code == http.client.NOT_FOUND:
                raise SetupFailed("archive-unreadable", why) from error
        except (OSError, http.client.HTTPException) as error:
            why = f"{program.archive} cannot be read: {error}"
            if wait is None:
                raise SetupFailed("archive-unreadable", why) from error
        log(f"{why}; trying again in {wait} s")
        pause(wait)
    if digest != program.sha256:
        raise SetupFailed("archive-digest", f"{program.archive} has sha256 {digest}, expected {program.sha256}")


def _copy(path: str, into: Path, google: GoogleApi, pause: Pause) -> str:
    digest = hashlib.sha256()
    with google.open_object(path) as response, into.open("wb") as file:
        while True:
            pause(0)
            chunk = response.read(_CHUNK)
            if not chunk:
                return digest.hexdigest()
            digest.update(chunk)
            file.write(chunk)


_FETCH: Dict[str, Callable[[Handoff, Path, Places, GoogleApi, Pause], Path]] = {
    "archive": _fetch_archive,
    "none": _fetch_none,
}
