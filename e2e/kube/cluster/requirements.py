"""What the machine has to have: root, a few Debian packages, namespaces and bridges in the kernel, containers that run."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from . import programs
from .settings import CNI_BIN, NAME, Refused, say

# Program, or file: the Debian package that brings it.
NEEDED = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    f"{CNI_BIN}/bridge": "containernetworking-plugins",
    f"{CNI_BIN}/host-local": "containernetworking-plugins",
    "nft": "nftables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "sysctl": "procps",
    "openssl": "openssl",
}


def absent():
    return {package for what, package in NEEDED.items() if shutil.which(what) is None}


def install():
    """Installs what is absent, when that is possible without asking anybody."""
    packages = sorted(absent())
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    say(f"installing {' '.join(packages)}")
    quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *command], check=False, **quiet)
        if done.returncode != 0:
            say(f"apt-get {command[0]} failed: {done.stderr.strip()}")
            return


def try_namespace():
    """Makes what the cluster's network consists of, and takes it away again. Says what did not work."""
    probe = f"{NAME}-probe"
    inside = ["nsenter", f"--net=/run/netns/{probe}"]
    steps = {
        "network namespaces": ["ip", "netns", "add", probe],
        "bridge devices": [*inside, "ip", "link", "add", "probe0", "type", "bridge"],
        "nftables": [*inside, "nft", "add table ip probe; add chain ip probe c { type nat hook prerouting priority 0; }"],
        "forwarding": [*inside, "sysctl", "-qw", "net.ipv4.ip_forward=1"],
    }
    try:
        for what, command in steps.items():
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                return f"the kernel gives no {what}: {done.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", probe], capture_output=True)
    return None


def try_container():
    """Runs a program in a container whose root is that of the machine. Says what did not work."""
    with tempfile.TemporaryDirectory(prefix="kube-probe-") as folder:
        root = pathlib.Path(folder, "rootfs")
        root.mkdir()
        spec = pathlib.Path(folder, "config.json")
        subprocess.run(["runc", "spec"], cwd=folder, check=True, capture_output=True)
        config = json.loads(spec.read_text())
        config["process"] |= {"args": ["/bin/true"], "terminal": False}
        spec.write_text(json.dumps(config))
        command = f"mount --rbind / {root} && exec runc --root {folder}/state run --bundle {folder} {NAME}-probe"
        done = subprocess.run(["unshare", "--mount", "sh", "-c", command], capture_output=True, text=True)
    return None if done.returncode == 0 else f"no container runs: {done.stderr.strip()}"


def check_machine():
    """Raises `Refused` with the reason and how to mend it."""
    if sys.platform != "linux":
        raise Refused("the cluster runs on Linux only")
    if os.geteuid() != 0:
        raise Refused("the cluster needs root (namespaces, containerd, kubelet)")
    if packages := absent():
        raise Refused(f"missing Debian packages: apt-get install {' '.join(sorted(packages))}")
    if not any(pathlib.Path("/sys/fs/cgroup", name).exists() for name in ("memory", "cgroup.controllers")):
        raise Refused("no cgroups at /sys/fs/cgroup")
    # The kubelet reads there what the kernel killed for want of memory, and does not start without.
    if not pathlib.Path("/dev/kmsg").exists():
        raise Refused("no /dev/kmsg")
    if problem := try_namespace() or try_container():
        raise Refused(problem)


def check():
    check_machine()
    if todo := programs.missing():
        raise Refused(f"not built: {', '.join(todo)}; run scripts/kube build")
