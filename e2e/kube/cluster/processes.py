"""Long-running processes with a file each that says who they are. Only what was started here is ever ended."""

import os
import pathlib
import signal
import subprocess
import time

from .settings import STATE, Failed

POLL = 0.05


def files(name):
    return STATE / "pid" / name, STATE / "log" / f"{name}.log"


def start_time(pid):
    """When a process started, in ticks since boot: with its id this tells it from all others. None = it is not there."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def running(name):
    """Id of a process of ours that still runs."""
    try:
        pid, since = files(name)[0].read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if start_time(pid) == since else None


def spawn(name, command, environment=None):
    """Starts a process that outlives this one; what it prints goes to its log."""
    pid_file, log_file = files(name)
    for path in (pid_file, log_file):
        path.parent.mkdir(parents=True, exist_ok=True)
    with open(log_file, "ab") as log:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=STATE,
                                   env=os.environ | (environment or {}), start_new_session=True)
    pid_file.write_text(f"{process.pid} {start_time(process.pid)}")


def end(name, grace=5.0):
    """Ends a process, gently first; grace 0 kills it at once."""
    deadline = time.monotonic() + grace
    while (pid := running(name)) is not None:
        try:
            os.kill(pid, signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL)
        except ProcessLookupError:
            break
        time.sleep(POLL)
    files(name)[0].unlink(missing_ok=True)


def tail(name, lines=15):
    try:
        return "\n".join(files(name)[1].read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"


def wait_for(what, name, condition, limit=90):
    """Waits until `condition` holds; fails early when the process `name` is gone."""
    deadline = time.monotonic() + limit
    while not condition():
        if running(name) is None:
            raise Failed(f"{name} ended; the end of {files(name)[1]}:\n{tail(name)}")
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not ready after {limit} s; the end of {files(name)[1]}:\n{tail(name)}")
        time.sleep(POLL)
