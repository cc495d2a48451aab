"""The tpu-recovery command."""
