"""A Cloud TPU API on this machine, for the real client; and the TPU VMs behind it, as processes."""

from .machines import Machines, NoMachines
from .server import TpuServer
from .settings import TpuSettings
from .vms import ProcessMachines

__all__ = ["Machines", "NoMachines", "ProcessMachines", "TpuServer", "TpuSettings"]
