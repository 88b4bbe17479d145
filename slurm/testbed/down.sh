#!/usr/bin/env bash
# Stops the testbed that up.sh started, and nothing else, and removes its folder. LMK_TESTBED_KEEP=1 keeps the logs.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

main() {
  if [ -e "$PIDS" ]; then
    cancel_jobs
    # The opposite order of the start: each daemon says goodbye to one that still listens.
    local name
    for name in slurmd slurmctld slurmdbd mariadbd munged; do stop_daemons "$name"; done
    kill_orphans
    if mountpoint -q "$ROOT/db"; then umount "$ROOT/db" || umount -l "$ROOT/db"; fi
    rm -f "$PIDS"
    echo "the testbed is stopped"
  fi
  [ "${LMK_TESTBED_KEEP:-}" = 1 ] || rm -rf "$ROOT"
}

cancel_jobs() {
  timeout 5 scontrol ping >/dev/null 2>&1 || return 0
  timeout 10 scancel --user="$(id -un)" >/dev/null 2>&1
  timeout 10 scancel --user="$(id -un)" --signal=KILL >/dev/null 2>&1
  local attempt
  for attempt in $(seq 50); do
    [ -n "$(timeout 5 squeue -h 2>/dev/null)" ] || break
    sleep 0.2
  done
}

# Whether process $1 is over, or is by now another program that was given the same number.
is_over() {
  case "$(cat "/proc/$1/comm" 2>/dev/null)" in
    munged | mariadbd | slurmdbd | slurmctld | slurmd | bash | node.sh | unshare) ;;
    *) return 0 ;;
  esac
  grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null
}

stop_daemons() {
  local pids pid attempt left
  pids="$(awk -v name="$1" '$2 == name || index($2, name "-n") == 1 { print $1 }' "$PIDS")"
  for pid in $pids; do is_over "$pid" || kill -TERM "$pid" 2>/dev/null; done
  for attempt in $(seq 100); do
    left=""
    for pid in $pids; do is_over "$pid" || left="$left $pid"; done
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  for pid in $left; do kill -KILL "$pid" 2>/dev/null; done
}

# Step daemons and tasks that outlived their slurmd: processes inside a job whose SLURM_CONF is this cluster's.
kill_orphans() {
  local environment pid
  for environment in /proc/[0-9]*/environ; do
    pid="$(basename "$(dirname "$environment")")"
    [ "$pid" != $$ ] || continue
    grep -qzx "SLURM_CONF=$SLURM_CONF" "$environment" 2>/dev/null || continue
    if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = slurmstepd ] || grep -qz '^SLURM_JOB_ID=' "$environment" 2>/dev/null; then
      kill -KILL "$pid" 2>/dev/null
    fi
  done
}

main
