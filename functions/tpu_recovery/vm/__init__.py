"""What runs on the TPU VM: the startup script and the runner. Standard library only."""
