"""What runs on the TPU VM: the startup script and the runner. Standard library only.

The runner's modules keep to Python 3.8, the oldest interpreter found on TPU VM images. `bundle` packs them, and is the
only module here that runs in the cloud function.
"""
