#!/usr/bin/env bash
# Runs one node's slurmd in the foreground: node.sh NAME. Also how a test brings a killed node back.
#
# Where the kernel allows it, the node gets a host name of its own and a view of /etc in which all nodes resolve and
# /etc/slurm is this cluster's. Then jobs see n1, n2, ... as on a real cluster, and the machine's own /etc stays as it is.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"
NAME="$1"
mkdir -p "$ROOT/spool/$NAME"
if [ -e "$ROOT/etc/namespaces" ]; then
  exec unshare --uts --mount bash -c '
    set -e
    hostname "$1"
    mount --bind "$2/etc/hosts" /etc/hosts
    mkdir -p /etc/slurm
    mount --bind "$2/etc" /etc/slurm
    exec slurmd -D -N "$1"' node "$NAME" "$ROOT"
fi
exec slurmd -D -N "$NAME"
