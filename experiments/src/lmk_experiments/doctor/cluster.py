"""A cluster, as a profile uses it: what its administrators have set, and whether it would take the jobs."""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lmk_experiments.doctor.finding import Finding
from lmk_experiments.grids.needs import Facts, ResourcesSection
from lmk_experiments.profiles import Profile, resources_of
from lmk_experiments.records.tickets import user_name
from lmk_slurm import Job, SchedulerError, scripts
from lmk_slurm.scheduler import run

_COMMANDS = ("sbatch", "srun", "squeue", "scancel", "scontrol")


def look_at_cluster(profile: Profile, root: Path) -> Iterator[Finding]:
    """Everything that the scheduler says without running anything."""
    lacking = [name for name in _COMMANDS if shutil.which(name) is None]
    if lacking:
        yield Finding("fail", "slurm", f"no command {', '.join(lacking)} here; is this a login node?")
        return
    try:
        version = run(["sinfo", "--version"]).strip()
        config = _pairs(run(["scontrol", "show", "config"]))
    except SchedulerError as error:
        yield Finding("fail", "slurm", f"the controller does not answer: {error}")
        return
    yield Finding("ok", "slurm", f"{version}, cluster {config.get('ClusterName', '?')}")
    yield _arrays(profile, config)
    yield from _partition(profile, config)
    yield from _account(profile)
    yield _accounting()
    yield from _taken(profile, root)


def _arrays(profile: Profile, config: dict[str, str]) -> Finding:
    limit = int(config.get("MaxArraySize", "1001")) - 1
    if profile.max_array > limit:
        return Finding("fail", "arrays", f"max_array is {profile.max_array}, and the cluster takes {limit} at most")
    return Finding("ok", "arrays", f"{profile.max_array} tasks at most (the cluster takes {limit})")


def _partition(profile: Profile, config: dict[str, str]) -> Iterator[Finding]:
    name = profile.partition or _default_partition()
    if name is None:
        yield Finding("fail", "partition", "the profile names none, and the cluster has no default")
        return
    try:
        partition = _pairs(run(["scontrol", "show", "partition", name, "--oneliner"]))
    except SchedulerError:
        listed = ", ".join(sorted({line.strip("*") for line in run(["sinfo", "-h", "-o", "%P"]).split()}))
        yield Finding("fail", "partition", f"there is no {name!r}; valid: {listed}")
        return
    state = partition.get("State", "?")
    yield Finding("ok" if state == "UP" else "fail", "partition", f"{name} is {state}, {partition.get('Nodes', '?')}")
    yield _time(profile, partition.get("MaxTime", "UNLIMITED"))
    yield from _gpus(profile, name)
    yield _preemption(config, partition)


def _time(profile: Profile, limit: str) -> Finding:
    most = _hours(limit)
    capped = profile.max_hours or math.inf
    asked = min(max(need.hours for need in (profile.train, profile.evaluate, profile.analyze, *profile.rules)), capped)
    if most is not None and asked > most:
        return Finding("fail", "time", f"{asked:g} hours are asked, and the partition gives {most:g} (MaxTime={limit})")
    if most is not None and profile.max_hours is not None and profile.max_hours > most:
        words = f"max_hours is {profile.max_hours:g}, and the partition gives {most:g} (MaxTime={limit})"
        return Finding("warn", "time", f"{words}; a grid that asks for more than that would be refused")
    return Finding("ok", "time", f"{asked:g} hours at most (MaxTime={limit})")


def _gpus(profile: Profile, partition: str) -> Iterator[Finding]:
    if profile.gpu.type is None and not profile.gpu.per_node:
        return
    offered = {item for line in run(["sinfo", "-h", "-p", partition, "-o", "%G"]).split() for item in line.split(",")}
    kinds = {match[1]: int(match[2]) for item in offered if (match := re.match(r"gpu:([^:(]+):(\d+)", item))}
    if profile.gpu.type is not None and profile.gpu.type not in kinds:
        yield Finding(
            "fail", "gpus", f"no {profile.gpu.type!r} in {partition}; valid: {', '.join(sorted(kinds)) or 'none'}"
        )
    elif profile.gpu.type is not None and (profile.gpu.per_node or 0) > kinds[profile.gpu.type]:
        most = kinds[profile.gpu.type]
        yield Finding("fail", "gpus", f"gpu.per_node is {profile.gpu.per_node}, and a node has {most}")
    else:
        yield Finding("ok", "gpus", ", ".join(sorted(offered)))


def _preemption(config: dict[str, str], partition: dict[str, str]) -> Finding:
    mode = partition.get("PreemptMode", config.get("PreemptMode", "OFF"))
    grace = partition.get("GraceTime", "0")
    told = "preempt_send_user_signal" in config.get("SlurmctldParameters", "")
    words = f"PreemptMode={mode}, GraceTime={grace} s, preempt_send_user_signal {'set' if told else 'not set'}"
    if mode in ("OFF", "(null)"):
        return Finding("ok", "preemption", f"{words}: jobs run to their end")
    if not told or grace == "0":
        advice = "a job that is pushed out is not told in time, and goes on from its last regular checkpoint"
        return Finding("note", "preemption", f"{words}: {advice}; ask for both where that matters")
    return Finding("ok", "preemption", words)


def _account(profile: Profile) -> Iterator[Finding]:
    try:
        listed = run(["sacctmgr", "-n", "-P", "show", "assoc", f"user={user_name()}", "format=account,qos"])
    except SchedulerError as error:
        yield Finding("note", "account", f"cannot be looked up ({error})")
        return
    rows = [line.split("|") for line in listed.splitlines() if line.strip()]
    accounts = {row[0] for row in rows}
    qos = {name for row in rows for name in row[-1].split(",") if name}
    for what, chosen, valid in (("account", profile.account, accounts), ("qos", profile.qos, qos)):
        if chosen is not None and valid and chosen not in valid:
            yield Finding("fail", what, f"{chosen!r} is not yours; valid: {', '.join(sorted(valid))}")
        else:
            yours = f"yours: {', '.join(sorted(valid))}" if valid else "the cluster lists none for you"
            yield Finding("ok", what, f"{chosen or 'not named'} ({yours})")


def _accounting() -> Finding:
    try:
        run(["sacct", "-X", "-n", "-o", "JobID"])
    except SchedulerError as error:
        return Finding("note", "sacct", f"does not answer ({error}); how old jobs ended will not be known")
    return Finding("ok", "sacct", "answers")


def _taken(profile: Profile, root: Path) -> Iterator[Finding]:
    """Asks sbatch whether it would take a training, an evaluation and an analysis, without submitting them."""
    for kind in ("training", "evaluation", "analysis"):
        needs = resources_of(Facts(kind, "row", "model", 512), ResourcesSection(), profile)
        with tempfile.TemporaryDirectory() as name:
            job = Job(
                kind, "lmk_experiments.jobs.probe:run_probe", "", Path(name), done=(Path(name) / "x",), resources=needs
            )
            [text] = scripts([job], profile.site(), root / "probes", label="doctor")
            script = Path(name) / "script.sh"
            script.write_text(text)
            try:
                run(["sbatch", "--test-only", str(script)])
            except SchedulerError as error:
                yield Finding("fail", kind, f"would be refused: {error}")
                continue
        memory = needs.memory_gb or profile.memory_gb
        cores = f"{needs.cpus} cores" if needs.tasks == 1 else f"{needs.tasks} tasks of {needs.cpus} cores"
        asked = f"{needs.nodes} node, {needs.gpus} GPUs, {cores}, {memory or '?'} GB, {needs.hours:g} hours"
        yield Finding("ok", kind, f"would be taken ({asked})")


def _default_partition() -> str | None:
    names = run(["sinfo", "-h", "-o", "%P"]).split()
    return next((name.rstrip("*") for name in names if name.endswith("*")), None)


def _pairs(text: str) -> dict[str, str]:
    """`Name = value` lines, or `Name=value` words, as a mapping."""
    lines = re.findall(r"^(\w+)\s+= (.*)$", text, re.MULTILINE)
    return dict(lines) if lines else dict(re.findall(r"(\w+)=(\S+)", text))


def _hours(limit: str) -> float | None:
    """SLURM's `days-hours:minutes:seconds` in hours; ``None`` for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", limit)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 24 + hours + minutes / 60 + seconds / 3600
