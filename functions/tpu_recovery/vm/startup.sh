#!/bin/sh
# Installs the tpu-recovery runner on this worker of a TPU VM and sees to it that it runs.
# Run as root by the guest agent at every boot, on every worker. Running it again changes nothing.
#
# Settings, all of them for tests and the local stack; on a TPU VM none is set:
#   TPU_RECOVERY_ROOT        everything is written below this directory (default /)
#   TPU_RECOVERY_SUPERVISOR  systemd (default), or foreground: become the runner
#   PYTHON                   the interpreter, 3.8 or newer (default python3)
set -eu

root="${TPU_RECOVERY_ROOT:-/}"
root="${root%/}"
supervisor="${TPU_RECOVERY_SUPERVISOR:-systemd}"
directory="$root/opt/tpu-recovery"
runner="$directory/runner.pyz"

if ! python="$(command -v "${PYTHON:-python3}")"; then
  echo "tpu-recovery: ${PYTHON:-python3} is not on this machine; Python 3.8 or newer is needed" >&2
  exit 1
fi

# Puts a file in place at once and only when it differs, so that nobody ever sees half of it.
# The exit status says whether it was changed.
replace() {
  if cmp -s "$1" "$2"; then
    rm "$1"
    return 1
  fi
  mv "$1" "$2"
}

changed=no
mkdir -p "$directory"
base64 -d >"$runner.new" <<'RUNNER'
@RUNNER@
RUNNER
if replace "$runner.new" "$runner"; then changed=yes; fi

case "$supervisor" in
foreground)
  exec "$python" "$runner"
  ;;
systemd) ;;
*)
  echo "tpu-recovery: TPU_RECOVERY_SUPERVISOR is '$supervisor'; systemd or foreground is needed" >&2
  exit 1
  ;;
esac

unit="$root/etc/systemd/system/tpu-recovery-runner.service"
mkdir -p "${unit%/*}"
# KillMode: SIGTERM goes to the runner alone, which stops the program with the grace that the job gives it; what is left
# after that is killed. TimeoutStopSec: above the five minutes for which the platform waits before maintenance.
# After: at shutdown the runner is stopped before the network is, so that its last report gets out.
cat >"$unit.new" <<UNIT
[Unit]
Description=tpu-recovery runner
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=$python $runner
Environment=TPU_RECOVERY_ROOT=$root/
Environment=PYTHONUNBUFFERED=1
Restart=always
RestartSec=5
KillMode=mixed
TimeoutStopSec=330
StandardOutput=journal
StandardError=journal

[Install]
WantedBy=multi-user.target
UNIT
if replace "$unit.new" "$unit"; then
  changed=yes
  systemctl daemon-reload
fi

# Enabled, because a startup script is not run at every boot that it should be.
systemctl enable --quiet tpu-recovery-runner.service
if [ "$changed" = yes ]; then
  systemctl restart tpu-recovery-runner.service
else
  systemctl start tpu-recovery-runner.service
fi
