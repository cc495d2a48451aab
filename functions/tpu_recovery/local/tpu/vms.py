"""Worker VMs as processes: each has a directory for a disk, a metadata server, and runs the startup script at boot."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path

from .machines import NodeMachines, announce_hostnames
from .metadata_server import ATTRIBUTES, MetadataServer
from .processes import kill_all

CONSOLE = "console.log"
_BOOT_ID = "proc/sys/kernel/random/boot_id"
_ROOT_VARIABLE = "TPU_RECOVERY_ROOT"


class Vm:
    """One worker VM, switched off until :meth:`power_on`."""

    def __init__(self, order: NodeMachines, worker: int, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.metadata = MetadataServer(
            _facts(order, worker),
            order.metadata,
            lambda namespace, key, value: order.set_guest_attribute(worker, namespace, key, value),
        )
        self._environment = environment
        self._startup: subprocess.Popen[bytes] | None = None

    @property
    def console(self) -> str:
        """What the startup script, and all it started, has printed since the VM exists."""
        file = self.directory / CONSOLE
        return file.read_text(errors="replace") if file.exists() else ""

    def power_on(self) -> None:
        """Boot: a new boot id, then the startup script of the node's metadata, if there is one, run by /bin/sh."""
        boot_id = self.directory / _BOOT_ID
        boot_id.parent.mkdir(parents=True, exist_ok=True)
        boot_id.write_text(f"{uuid.uuid4()}\n")
        script = self.metadata.attributes.get("startup-script")
        if script is None:
            return
        file = self.directory / "startup-script"
        file.write_text(script)
        with (self.directory / CONSOLE).open("ab") as console:
            self._startup = subprocess.Popen(
                ["/bin/sh", str(file)],
                cwd=self.directory,
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _variables(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.directory),
            "PYTHON": sys.executable,
            "TPU_RECOVERY_SUPERVISOR": "foreground",
            **self._environment,
            "GCE_METADATA_HOST": self.metadata.address,
            _ROOT_VARIABLE: str(self.directory),
        }

    def shut_down(self) -> None:
        """SIGTERM to the startup script's process, and to no other.

        On a real VM systemd sends it to the runner, which passes it on. Here a startup script gives its process to
        the runner by ``exec``.
        """
        if self._startup is not None:
            # Not by Popen.send_signal: that would collect an ended process, and its id could be another's by now.
            os.kill(self._startup.pid, signal.SIGTERM)

    def power_off(self) -> None:
        """Kill all that runs on the VM; the disk stays."""
        if self._startup is not None:
            kill_all(self._startup.pid, f"{_ROOT_VARIABLE}={self.directory}")
            self._startup.wait()
            self._startup = None


def _facts(order: NodeMachines, worker: int) -> dict[str, str]:
    """The metadata values that the platform gives a worker."""
    _, project, _, zone, _, node_id = order.node.split("/")
    hostname = order.hostnames[worker]
    token = {"access_token": "local", "expires_in": 3599, "token_type": "Bearer"}
    return {
        "instance/description": node_id,
        "instance/hostname": f"{hostname}.{zone}.c.{project}.internal",
        "instance/id": str(order.instance_ids[worker]),
        "instance/name": hostname,
        "instance/service-accounts/default/token": json.dumps(token),
        "instance/zone": f"projects/{order.project_number}/zones/{zone}",
        "project/numeric-project-id": order.project_number,
        "project/project-id": project,
        f"{ATTRIBUTES}accelerator-type": order.accelerator_type,
        f"{ATTRIBUTES}agent-worker-number": str(worker),
    }


class ProcessMachines:
    """Machines whose VMs are processes of this computer. Their directories stay when they are gone.

    ``environment`` is added to that of the startup scripts, which is otherwise made anew: PATH of this process, HOME
    and TPU_RECOVERY_ROOT (the VM's directory), GCE_METADATA_HOST, TPU_RECOVERY_SUPERVISOR=foreground and PYTHON. All
    VMs are killed when this interpreter ends.
    """

    def __init__(self, root_directory: Path, environment: Mapping[str, str]) -> None:
        self._root = root_directory.resolve()
        self._environment = dict(environment)
        self._vms: dict[str, list[Vm]] = {}
        self._lock = threading.Lock()
        atexit.register(self.stop_all)

    def directory(self, hostname: str) -> Path:
        """The directory of a VM, whether it still exists or not."""
        return self._root / hostname

    def vms(self, node: str) -> list[Vm]:
        """The VMs of a node (its full name) in the order of the workers; none when it has none."""
        with self._lock:
            return list(self._vms.get(node, []))

    def boot(self, order: NodeMachines) -> None:
        """Make the VMs of a node and switch them on. Raises ValueError when it has some already."""
        with self._lock:
            if order.node in self._vms:
                raise ValueError(f"{order.node} has VMs already: kill them first")
            vms = []
            for worker, hostname in enumerate(order.hostnames):
                self.directory(hostname).mkdir(parents=True)
                vms.append(Vm(order, worker, self.directory(hostname), self._environment))
            self._vms[order.node] = vms
            announce_hostnames(order)
            for vm in vms:
                vm.power_on()

    def shut_down(self, node: str, *, preempted: bool = False) -> None:
        """SIGTERM to the startup script of each VM; ``preempted``: the metadata servers say so first."""
        with self._lock:
            for vm in self._vms.get(node, []):
                if preempted:
                    vm.metadata.set_preempted()
                vm.shut_down()

    def kill(self, node: str) -> None:
        """Kill all processes of the node's VMs, and end their metadata servers."""
        with self._lock:
            for vm in self._vms.pop(node, []):
                vm.power_off()
                vm.metadata.stop()

    def reboot(self, node: str, workers: tuple[int, ...]) -> None:
        """Kill all processes of these VMs and run the startup script again; directory and metadata stay."""
        with self._lock:
            vms = self._vms.get(node, [])
            for worker in workers if vms else ():
                vms[worker].power_off()
                vms[worker].power_on()

    def update(self, node: str, metadata: Mapping[str, str]) -> None:
        """Let the metadata servers of the node serve this."""
        with self._lock:
            for vm in self._vms.get(node, []):
                vm.metadata.update(metadata)

    def stop_all(self) -> None:
        """Kill every VM."""
        with self._lock:
            nodes = list(self._vms)
        for node in nodes:
            self.kill(node)
