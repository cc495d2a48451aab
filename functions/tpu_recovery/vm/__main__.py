"""The runner's entry point; takes its settings from the environment, see the startup script."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import IO, Any, Optional

from tpu_recovery.checkpoints import BucketListing, Listing, LocalListing
from tpu_recovery.vm.google_api import GoogleApi
from tpu_recovery.vm.handoff import Checkpoints
from tpu_recovery.vm.log import log
from tpu_recovery.vm.machine import Machine, read_machine
from tpu_recovery.vm.metadata import MetadataServer, MetadataSilent
from tpu_recovery.vm.outbox import Outbox
from tpu_recovery.vm.places import Places
from tpu_recovery.vm.prepare import prepare
from tpu_recovery.vm.reports import Reporter
from tpu_recovery.vm.resume import choose, newest_step
from tpu_recovery.vm.scripts import Scripts
from tpu_recovery.vm.signals import Signals
from tpu_recovery.vm.state import StateFile
from tpu_recovery.vm.supervise import Clock, Supervisor
from tpu_recovery.vm.trainer import Trainer
from tpu_recovery.vm.watch import HandoffWatch


def main() -> None:
    """Run until SIGTERM."""
    threading.excepthook = _end_with_the_thread
    places = Places(Path(os.environ.get("TPU_RECOVERY_ROOT", "/")).resolve())
    signals = Signals()
    signals.install()
    lock = _lock(places)
    metadata = MetadataServer(os.environ.get("GCE_METADATA_HOST", "metadata.google.internal"))
    machine = _machine(metadata, places, signals)
    if machine is not None:
        log(f"runner at work on {machine.hostname}, worker {machine.worker}, boot {machine.boot}")
        _supervisor(places, signals, metadata, machine).run()
    lock.close()


def _supervisor(places: Places, signals: Signals, metadata: MetadataServer, machine: Machine) -> Supervisor:
    storage_url = os.environ.get("STORAGE_EMULATOR_HOST", "https://storage.googleapis.com")
    pubsub_url = os.environ.get("TPU_RECOVERY_PUBSUB_URL", "https://pubsub.googleapis.com")
    google = GoogleApi(metadata.token, storage_url, pubsub_url)

    def listing_for(checkpoints: Checkpoints) -> Listing:
        return BucketListing(metadata.token, storage_url) if checkpoints.on_bucket else LocalListing()

    clock = Clock(lambda: datetime.now(timezone.utc), time.monotonic)
    file = StateFile(places.state)
    state = file.load()
    outbox = Outbox(metadata, google)
    handoffs = HandoffWatch(metadata, signals.wake)
    handoffs.start()
    scripts = Scripts(places, machine.boot, state, file, signals.wait)
    return Supervisor(
        machine=machine,
        signals=signals,
        handoffs=handoffs,
        state=state,
        file=file,
        reporter=Reporter(machine, state, file, outbox, clock.now),
        outbox=outbox,
        trainer=Trainer(places, machine, signals, partial(newest_step, listing_for=listing_for)),
        prepare=partial(prepare, places=places, machine=machine, scripts=scripts, google=google),
        choose=lambda handoff, pause: choose(handoff, listing_for, pause),
        clock=clock,
    )


def _machine(metadata: MetadataServer, places: Places, signals: Signals) -> Optional[Machine]:
    """Who this is, however long the metadata server is silent; None when the VM shuts down before it speaks."""
    while not signals.terminating:
        try:
            return read_machine(metadata, places)
        except MetadataSilent as silent:
            log(f"waiting for the metadata server: {silent}")
            signals.wait(1)
    return None


def _lock(places: Places) -> IO[str]:
    """Two runners on one VM would start two programs; the lock goes with the process, however that ends."""
    places.data.mkdir(parents=True, exist_ok=True)
    lock = places.lock.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit(f"tpu-recovery: another runner is at work here and holds {places.lock}") from None
    return lock


def _end_with_the_thread(arguments: Any) -> None:
    """A runner with half its threads would look alive; systemd starts a whole one."""
    threading.__excepthook__(arguments)
    os._exit(1)


if __name__ == "__main__":
    main()
