"""The startup script for node metadata: the shell script with the runner packed into it.

Runs in the cloud function and on a person's machine, from the installed sources. The same sources give the same bytes,
so that a node's metadata can be compared and a boot can see that nothing changed.
"""

from __future__ import annotations

import base64
import io
import textwrap
import zipfile
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_MAIN = """\
from tpu_recovery.vm.__main__ import main

main()
"""


@cache
def startup_script() -> str:
    """The text for the metadata key ``startup-script``. A metadata value may have 262,144 bytes; this has far fewer."""
    template = (Path(__file__).parent / "startup.sh").read_text(encoding="utf-8")
    packed = base64.b64encode(runner()).decode("ascii")
    return template.replace("@RUNNER@", "\n".join(textwrap.wrap(packed, 76)))


@cache
def runner() -> bytes:
    """The runner as one executable zip file, ``runner.pyz``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in sorted(_modules().items()):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


def _modules() -> dict[str, str]:
    sources = [_PACKAGE / "__init__.py", *_PACKAGE.glob("checkpoints/*.py"), *_PACKAGE.glob("vm/*.py")]
    modules = {
        f"tpu_recovery/{source.relative_to(_PACKAGE).as_posix()}": source.read_text(encoding="utf-8")
        for source in sources
        if source != Path(__file__)
    }
    return {"__main__.py": _MAIN, **modules}
