"""Gives a script its environment: `ensure()` makes .venv when it is missing or out of date, and goes on inside it.

Standard library only, and readable by any Python 3, so that an old one gets a message instead of a syntax error.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
OLDEST = (3, 11)

RUN = ("functions/requirements.txt", "requirements-cli.txt", "requirements-local.txt")
"""What the demo needs: the service, the command line, the local stack."""

DEVELOP = ("requirements-dev.txt",)
"""What the tests need beside that."""


def ensure(develop=False):
    """Go on inside .venv with everything installed that the script needs. May replace this process."""
    if sys.version_info < OLDEST:
        _restart_with(_newer_python())
    files = RUN + DEVELOP if develop else RUN
    python = ENVIRONMENT / "bin" / "python"
    if not _is_current(files):
        _install(python, files)
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        _restart_with(str(python))


def _newer_python():
    for minor in range(19, OLDEST[1] - 1, -1):
        found = shutil.which("python3.{}".format(minor))
        if found and subprocess.run([found, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return found  # a version manager's stand-in may be there and not run
    sys.exit(
        "Python {}.{} or newer is needed; this is {}.{} and no newer one is on the PATH.".format(
            *(OLDEST + tuple(sys.version_info[:2]))
        )
    )


def _restart_with(python):
    os.execv(python, [python, *sys.argv])


def _marker(files):
    """A file that is there once exactly these requirements are installed for this checkout."""
    digest = hashlib.sha256(str(ROOT).encode())
    for name in (*files, "pyproject.toml"):
        digest.update((ROOT / name).read_bytes())
    return ENVIRONMENT / "installed-{}".format(digest.hexdigest()[:16])


def _is_current(files):
    return _marker(files).exists() or (files == RUN and _marker(RUN + DEVELOP).exists())


def _install(python, files):
    if not os.access(str(ROOT), os.W_OK):
        sys.exit("{} cannot be written, and the environment .venv is made in it.".format(ROOT))
    print("Setting up .venv (once; about half a minute) …", file=sys.stderr, flush=True)
    if not python.exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=False)
        if made.returncode != 0:
            shutil.rmtree(ENVIRONMENT, ignore_errors=True)
            sys.exit("python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for name in files:
        pip += ["--requirement", str(ROOT / name)]
    installed = subprocess.run([*pip, "--editable", str(ROOT)], check=False)
    if installed.returncode != 0:
        sys.exit("pip could not install what is needed; its message is above.")
    for old in ENVIRONMENT.glob("installed-*"):
        old.unlink()
    _marker(files).touch()
