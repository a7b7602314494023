"""Starts and ends the cluster."""

import os
import secrets
import shutil
import subprocess
import time

from . import components, processes, requirements
from .components import containerd_answers, api_server_answers, ctr, inside, node_is_ready, succeeds
from .programs import PAUSE_ARCHIVE
from .settings import BIN, KUBECONFIG, NAME, NODE_IP, STATE, Failed, render, say


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")


def network():
    """The namespace. The node's address sits on a bridge; the default route ends there, so nothing leaves the machine."""
    call("ip", "netns", "add", NAME)
    for command in (
        "ip link set lo up",
        "ip link add node0 type bridge",
        f"ip addr add {NODE_IP}/24 dev node0",
        "ip link set node0 up",
        "ip route add default dev node0",
        "sysctl -qw net.ipv4.ip_forward=1",
    ):
        call(*inside(command.split()))


def credentials():
    call("openssl", "genrsa", "-out", STATE / "sa.key", "2048")
    call("openssl", "rsa", "-in", STATE / "sa.key", "-pubout", "-out", STATE / "sa.pub")
    token = secrets.token_hex(16)
    (STATE / "token").write_text(token)
    (STATE / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    return token


def write_configuration():
    STATE.mkdir(mode=0o700)
    render("kubeconfig", KUBECONFIG, token=credentials())
    render("containerd.toml", STATE / "containerd.toml")
    render("cni.conflist", STATE / "cni/10-bridge.conflist")
    render("kubelet.yaml", STATE / "kubelet.yaml")
    render("Corefile", STATE / "Corefile")
    (STATE / "kubelet").mkdir()


def spawn(name):
    processes.spawn(name, inside(components.all_components()[name]))


def bring_up():
    write_configuration()
    network()
    for name in ("containerd", *components.control_plane()):
        spawn(name)
    processes.wait_for("containerd", "containerd", containerd_answers)
    load(PAUSE_ARCHIVE)
    processes.wait_for("API server", "kube-apiserver", api_server_answers)
    for name in components.node():
        spawn(name)
    processes.wait_for("node", "kubelet", node_is_ready)


def start():
    """Starts the cluster, or finds it running. Nothing is left behind when it does not come up."""
    if is_running():
        say(f"already running: {KUBECONFIG}")
        return
    requirements.install()
    requirements.check()
    stop()
    began = time.monotonic()
    try:
        bring_up()
    except BaseException:
        kept = STATE.with_name(STATE.name + "-logs")
        shutil.rmtree(kept, ignore_errors=True)
        if (STATE / "log").exists():
            shutil.copytree(STATE / "log", kept)
            say(f"logs are kept in {kept}")
        stop()
        raise
    say(f"running after {time.monotonic() - began:.0f} s: {KUBECONFIG}")


def is_running():
    return all(processes.running(name) for name in components.all_components()) and api_server_answers() and node_is_ready()


def load(archive):
    """Brings the image of a docker-save or OCI archive to the node."""
    call(*inside(ctr("images", "import", archive)))


def end_pods():
    """Ends what runs in Pods. The containerd of this cluster knows only of its own."""
    if not components.SOCKET.exists():
        return
    def tasks():
        return subprocess.run(list(map(str, ctr("tasks", "ls", "-q"))), capture_output=True, text=True).stdout.split()

    for task in tasks():
        succeeds(*ctr("tasks", "kill", "-s", "KILL", task))
    for task in tasks():
        succeeds(*ctr("tasks", "rm", "-f", task))


def unmount():
    with open("/proc/mounts") as mounts:
        below = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{STATE}/")]
    for path in sorted(below, reverse=True):
        subprocess.run(["umount", "-l", path], capture_output=True)


def stop():
    """Ends all that `start` started and removes its state."""
    for name in reversed(components.all_components()):
        if name != "containerd":
            processes.end(name)
    end_pods()
    processes.end("containerd")
    unmount()
    succeeds("ip", "netns", "del", NAME)
    shutil.rmtree(STATE, ignore_errors=True)


def kill(name):
    """Ends one component at once, as a crash does."""
    known(name)
    processes.end(name, grace=0)


def revive(name):
    """Starts one component again."""
    known(name)
    if processes.running(name) is None:
        spawn(name)


def known(name):
    if name not in components.all_components():
        raise Failed(f"no component {name}; there are: {', '.join(components.all_components())}")
    if not STATE.exists():
        raise Failed("the cluster is not running: scripts/kube start")


def execute(command):
    """Becomes `command`, inside of the namespace."""
    if not STATE.exists():
        raise Failed("the cluster is not running: scripts/kube start")
    os.environ["KUBECONFIG"] = str(KUBECONFIG)
    os.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"
    whole = inside(command)
    os.execvp(whole[0], whole)


def status():
    """Prints what runs; true when all of it does."""
    if not STATE.exists():
        say("stopped")
        return False
    for name in components.all_components():
        pid = processes.running(name)
        say(f"{name:<24} {f'pid {pid}' if pid else 'ended'}")
    well = is_running()
    say(f"ready: {KUBECONFIG}" if well else "not ready")
    return well
