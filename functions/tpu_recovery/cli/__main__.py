"""``python -m tpu_recovery.cli``: the tpu-recovery command."""

from tpu_recovery.cli.main import main

main(prog_name="tpu-recovery")
