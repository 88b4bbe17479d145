#!/usr/bin/env bash
# Starts a real SLURM on this machine: munge, MariaDB, slurmdbd, slurmctld and a few nodes. See README.md.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

main() {
  if [ -e "$PIDS" ]; then
    timeout 5 scontrol ping >/dev/null 2>&1 || die "$ROOT holds a testbed that does not answer: stop it with $HERE/down.sh"
    echo "the testbed runs already; use it with: export SLURM_CONF=$SLURM_CONF"
    exit 0
  fi
  [ "$(id -u)" = 0 ] || die "the testbed needs root: it starts system daemons"
  install_packages
  mkdir -p "$ROOT"/{etc,log,state,spool,db,munge,dev}
  chmod 755 "$ROOT" "$ROOT"/*
  : >"$PIDS"
  choose_ports
  write_configuration
  start_munge
  start_database
  start_controller
  start_nodes
  echo "$NODES nodes are idle; use them with: export SLURM_CONF=$SLURM_CONF"
}

die() { echo "$*" >&2; exit 2; }

install_packages() {
  local command
  for command in $DAEMONS srun sacct my_print_defaults mariadb-install-db; do
    if ! command -v "$command" >/dev/null; then
      command -v apt-get >/dev/null || die "$command is not installed, and there is no apt-get to install it"
      export DEBIAN_FRONTEND=noninteractive
      apt-get -o DPkg::Lock::Timeout=300 update -q
      apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $PACKAGES
      return
    fi
  done
}

# --- configuration -------------------------------------------------------------------------------------------------

is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

choose_ports() {
  local offset
  while true; do
    local taken=0
    for offset in $(seq 0 "$NODES") 100 101; do
      if is_open $((PORT + offset)); then taken=1; fi
    done
    [ $taken = 1 ] || break
    PORT=$((PORT + 200))
    [ $PORT -lt 60000 ] || die "no free block of ports was found"
  done
  PORT_DBD=$((PORT + 100))
  PORT_SQL=$((PORT + 101))
}

render() {
  sed -e "s|@ROOT@|$ROOT|g; s|@HOST@|$(hostname -s)|g; s|@NODES@|$NODES|g; s|@CPUS@|$CPUS|g; s|@CORES@|$((CPUS / 2))|g" \
    -e "s|@NODE_HOSTS@|$NODE_HOSTS|g; s|@PORT@|$PORT|g; s|@PORT_DBD@|$PORT_DBD|g; s|@PORT_SQL@|$PORT_SQL|g" \
    -e "s|@PORT_FIRST_NODE@|$((PORT + 1))|g; s|@PORT_LAST_NODE@|$((PORT + NODES))|g" \
    "$HERE/templates/$1" >"$ROOT/etc/$1"
}

write_configuration() {
  local number file
  if unshare --uts --mount true 2>/dev/null; then
    touch "$ROOT/etc/namespaces"
    NODE_HOSTS="n[1-$NODES]"
  else
    NODE_HOSTS="$(hostname -s)"
  fi
  { cat /etc/hosts; echo "127.0.0.1 $(seq -s ' ' -f 'n%g' 1 "$NODES")"; } >"$ROOT/etc/hosts"
  for file in slurm.conf gres.conf slurmdbd.conf accounts.sql; do render "$file"; done
  if [ -n "$EXTRA" ]; then printf '%b\n' "$EXTRA" >>"$SLURM_CONF"; fi
  chmod 600 "$ROOT/etc/slurmdbd.conf"  # slurmdbd refuses any other mode
  for number in 0 1 2 3 4 5 6 7; do mknod "$ROOT/dev/nvidia$number" c 1 3; done
}

# --- daemons -------------------------------------------------------------------------------------------------------

# start NAME COMMAND...: in the background and in a session of its own, its output in log/NAME.out
start() {
  local name="$1"
  shift
  setsid "$@" </dev/null >>"$ROOT/log/$name.out" 2>&1 &
  echo "$! $name" >>"$PIDS"
}

# wait_for NAME COMMAND...: until COMMAND succeeds, as long as the daemon NAME lives
wait_for() {
  local name="$1" pid end=$((SECONDS + PATIENCE))
  shift
  pid="$(awk -v name="$name" '$2 == name { pid = $1 } END { print pid }' "$PIDS")"
  until "$@" >/dev/null 2>&1; do
    kill -0 "$pid" 2>/dev/null || give_up "$name ended"
    [ "$SECONDS" -lt "$end" ] || give_up "$name did not answer within $PATIENCE s"
    sleep 0.1
  done
  echo "$name answers"
}

give_up() {
  echo "FAILED: $1; the end of each log in $ROOT/log:" >&2
  tail -n 15 "$ROOT"/log/* >&2 || true
  LMK_TESTBED_KEEP=1 "$HERE/down.sh" || true
  exit 1
}

start_munge() {
  head -c 1024 /dev/urandom >"$ROOT/munge/munge.key"
  chmod 400 "$ROOT/munge/munge.key"
  start munged munged -F --num-threads=2 --key-file="$ROOT/munge/munge.key" --socket="$ROOT/munge/munge.socket" \
    --pid-file="$ROOT/munge/munged.pid" --log-file="$ROOT/log/munged.log" --seed-file="$ROOT/munge/munged.seed"
  wait_for munged munge -n --socket="$ROOT/munge/munge.socket"
}

start_database() {
  # In memory where that is allowed: the accounts of a testbed need not survive, and syncing to disk takes seconds.
  mount -t tmpfs -o size=1g,mode=700 lmk-testbed "$ROOT/db" 2>/dev/null || true
  local shape=(--innodb-flush-method=nosync --innodb-log-file-size=8M --innodb-data-file-path=ibdata1:4M:autoextend)
  mariadb-install-db --no-defaults --user=root --datadir="$ROOT/db" --auth-root-authentication-method=normal \
    --skip-test-db "${shape[@]}" >"$ROOT/log/mariadb-install.out" 2>&1 || give_up "mariadb-install-db"
  start mariadbd mariadbd --no-defaults --user=root --datadir="$ROOT/db" --socket="$ROOT/db/mysqld.sock" \
    --pid-file="$ROOT/mariadbd.pid" --bind-address=127.0.0.1 --port="$PORT_SQL" --skip-name-resolve \
    --init-file="$ROOT/etc/accounts.sql" --log-error="$ROOT/log/mariadbd.log" --performance-schema=OFF \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=16M --innodb-lock-wait-timeout=900 "${shape[@]}"
  wait_for mariadbd is_open "$PORT_SQL"
}

start_controller() {
  start slurmdbd slurmdbd -D
  wait_for slurmdbd is_open "$PORT_DBD"
  start slurmctld slurmctld -D -c -i
  wait_for slurmctld scontrol ping
}

nodes_are_idle() { [ "$(sinfo -h -N -p main -t idle -o %N | wc -l)" = "$NODES" ]; }
accounting_answers() { sacct -n -X && sacctmgr -n -P list cluster | grep -q '^testbed|'; }

start_nodes() {
  local number
  for number in $(seq 1 "$NODES"); do start "slurmd-n$number" "$HERE/node.sh" "n$number"; done
  wait_for slurmctld nodes_are_idle
  wait_for slurmdbd accounting_answers
}

main
