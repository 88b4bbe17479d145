# Settings of the testbed, read by up.sh and down.sh. Every one can be set in the environment beforehand.

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

# Everything the testbed writes is below this folder: configuration, sockets, logs, state.
# (munge refuses a path through a folder that others may write to, unless it has the sticky bit, as /tmp has.)
ROOT="${LMK_TESTBED_ROOT:-$HERE/cluster}"
NODES="${LMK_TESTBED_NODES:-4}"
# Each node claims this many cores and 8 GPUs; nothing of it exists, and nothing enforces it.
CPUS="${LMK_TESTBED_CPUS:-64}"
# The first port of a block of 200; where something listens already, the next block is tried.
PORT="${LMK_TESTBED_PORT:-26817}"
# How long one daemon may take to answer, in seconds.
PATIENCE="${LMK_TESTBED_PATIENCE:-60}"
# Lines to append to slurm.conf, for example AccountingStorageEnforce=associations,limits,qos
EXTRA="${LMK_TESTBED_EXTRA:-}"

PACKAGES="slurmctld slurmd slurmdbd slurm-client munge mariadb-server-core mariadb-client-core"
DAEMONS="munged mariadbd slurmdbd slurmctld slurmd"
# One line a daemon: its process id and its name. The file is there exactly while the testbed is.
PIDS="$ROOT/pids"

export SLURM_CONF="$ROOT/etc/slurm.conf"
