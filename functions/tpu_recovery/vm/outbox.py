"""Sends reports without ever holding up the runner: guest attribute first, then Pub/Sub.

Guest attributes hold the truth: the newest report is written until it is there. The message is only the hint that
wakes the service, so after some tries it is dropped.
"""

from __future__ import annotations

import http.client
import json
import queue
import threading
import time
from typing import Any, Callable, Dict, Mapping, Optional

from tpu_recovery.vm.backoff import delay
from tpu_recovery.vm.google_api import GoogleApi
from tpu_recovery.vm.log import log
from tpu_recovery.vm.metadata import MetadataServer

NAMESPACE = "tpu-recovery"
_PUBLISH_TRIES = 6
_WRITE_AGAIN_AFTER = 5.0  # seconds

Report = Mapping[str, Any]


class Outbox:
    """Takes reports in order. ``hints`` false means that a report goes to the guest attribute only."""

    def __init__(
        self, metadata: MetadataServer, google: GoogleApi, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._metadata = metadata
        self._google = google
        self._sleep = sleep
        self._written: queue.Queue[_Letter] = queue.Queue()
        self._published: queue.Queue[_Letter] = queue.Queue()
        self._unsent = 0
        self._changed = threading.Condition()
        for work in (self._write_all, self._publish_all):
            threading.Thread(target=work, daemon=True).start()

    def send(self, report: Report, topic: Optional[str]) -> None:
        """Take one report; ``topic`` None means guest attribute only."""
        with self._changed:
            self._unsent += 1
        self._written.put(_Letter(report, topic))

    def flush(self, seconds: float) -> None:
        """Wait until everything taken was sent or dropped, but not longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: self._unsent == 0, seconds)

    def _write_all(self) -> None:
        unwritten: Dict[str, _Letter] = {}
        while True:
            letter = self._next_to_write(wait=None if not unwritten else _WRITE_AGAIN_AFTER)
            if letter is not None:
                unwritten[letter.guest_attribute] = letter  # a newer one replaces one that is still to be written
            for key, waiting in list(unwritten.items()):
                if self._write(key, waiting):
                    del unwritten[key]
            if letter is not None:
                self._pass_on(letter)

    def _next_to_write(self, wait: Optional[float]) -> Optional[_Letter]:
        try:
            return self._written.get(timeout=wait)
        except queue.Empty:
            return None

    def _write(self, key: str, letter: _Letter) -> bool:
        try:
            self._metadata.put_guest_attribute(NAMESPACE, key, letter.text)
        except OSError as error:
            log(f"guest attribute {key} not written, trying again: {error}")
            return False
        return True

    def _pass_on(self, letter: _Letter) -> None:
        if letter.topic is None:
            self._sent()
        else:
            self._published.put(letter)

    def _publish_all(self) -> None:
        while True:
            letter = self._published.get()
            self._publish(letter)
            self._sent()

    def _publish(self, letter: _Letter) -> None:
        for failures in range(1, _PUBLISH_TRIES + 1):
            try:
                self._google.publish(str(letter.topic), letter.text.encode(), {"job": letter.job})
            except (OSError, http.client.HTTPException) as error:
                log(f"report not published, try {failures} of {_PUBLISH_TRIES}: {error}")
                if failures < _PUBLISH_TRIES:
                    self._sleep(delay(failures, first=1, longest=30))
            else:
                return
        log("report dropped: the guest attribute still holds the newest one")

    def _sent(self) -> None:
        with self._changed:
            self._unsent -= 1
            self._changed.notify_all()


class _Letter:
    def __init__(self, report: Report, topic: Optional[str]) -> None:
        self.text = json.dumps(report)
        self.topic = topic
        self.job = str(report["job"])
        self.guest_attribute = "alive" if report["kind"] == "alive" else "report"
