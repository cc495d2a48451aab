"""A Cloud TPU API on this machine, for the real client; and the TPU VMs behind it, as processes."""

from .machines import Machines, NoMachines
from .server import TpuServer
from .settings import TpuSettings

__all__ = ["Machines", "NoMachines", "TpuServer", "TpuSettings"]
