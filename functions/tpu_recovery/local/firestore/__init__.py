"""An embedded Firestore: the real google-cloud-firestore client talks to it through FIRESTORE_EMULATOR_HOST.

It serves what this project calls and refuses everything else with UNIMPLEMENTED. Beyond Google's emulator it enforces
declared indexes, so a query that works here needs no index that Terraform forgot.
"""

from tpu_recovery.local.firestore.indexes import CompositeIndex, Indexes
from tpu_recovery.local.firestore.server import FirestoreServer

__all__ = ["CompositeIndex", "FirestoreServer", "Indexes"]
