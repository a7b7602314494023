"""Where things are, and which addresses are used."""

import hashlib
import os
import pathlib
import string

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = ROOT / "e2e/kube"

# Every checkout has a cluster of its own unless told otherwise.
NAME = os.environ.get("ISTHMUS_KUBE_NAME") or "isthmus-" + hashlib.sha256(str(ROOT).encode()).hexdigest()[:6]
# Programs are built once per checkout; another checkout's folder can be named to share them.
CACHE = pathlib.Path(os.environ.get("ISTHMUS_KUBE_CACHE") or ROOT / ".cache/kube")
BIN = CACHE / "bin"
# Short, because the paths of Unix sockets may not exceed 107 bytes.
STATE = pathlib.Path("/var/tmp") / f"kube-{NAME}"
KUBECONFIG = STATE / "kubeconfig"

NODE = "node1"
NODE_IP = "10.240.0.1"
POD_RANGE = "10.244.0.0/24"
SERVICE_RANGE = "10.96.0.0/16"
LOAD_BALANCER_RANGE = "10.97.0.0/24"
PAUSE_IMAGE = "docker.io/local/pause:1"
CNI_BIN = "/usr/lib/cni"

# Runs a command inside. `ip netns exec` would mount a fresh /sys, in which the kubelet finds no cgroups.
INSIDE = ["nsenter", f"--net=/run/netns/{NAME}"]


class Refused(Exception):
    """This machine cannot run the cluster: nothing is broken, tests that need it are to be skipped."""


class Failed(Exception):
    """Something that should work did not."""


def render(template, target, **values):
    """Writes a file of the folder `config` with its placeholders filled in."""
    text = string.Template((HERE / "config" / template).read_text())
    known = {
        "name": NAME, "state": STATE, "node_ip": NODE_IP, "pod_range": POD_RANGE,
        "pause_image": PAUSE_IMAGE, "cni_bin": CNI_BIN,
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text.substitute(known | values))


def say(text):
    print(f"kube: {text}", flush=True)
