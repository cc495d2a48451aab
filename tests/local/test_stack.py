"""The stack goes on whatever happens to the function."""

from __future__ import annotations

import http.client
import urllib.error
from pathlib import Path

import pytest

from tpu_recovery.local.stack import Stack, StackSettings

FAILURES = (http.client.RemoteDisconnected("killed"), http.client.IncompleteRead(b""), urllib.error.URLError("refused"))


@pytest.mark.parametrize("failure", [*FAILURES, TimeoutError()], ids=lambda failure: type(failure).__name__)
def test_a_sweep_that_is_not_answered_is_followed_by_the_next(failure: Exception, tmp_path: Path) -> None:
    stack = FailingOnce(tmp_path, failure)
    stack._sweep_regularly()
    assert stack.swept == 2


class FailingOnce(Stack):
    """A stack whose function dies during the first sweep, and which is stopped after the second."""

    def __init__(self, directory: Path, failure: Exception) -> None:
        super().__init__(StackSettings(sweep_every=0), directory)
        self.failure, self.swept = failure, 0

    def sweep(self) -> None:
        """One sweep."""
        self.swept += 1
        if self.swept == 1:
            raise self.failure
        self._stopping.set()
