"""The processes of which the cluster consists, in the order of starting."""

import subprocess
import sys

from .settings import (BIN, HERE, INSIDE, KUBECONFIG, LOAD_BALANCER_RANGE, NODE, NODE_IP, POD_RANGE, SERVICE_RANGE, STATE)

SOCKET = STATE / "containerd.sock"


def control_plane():
    """Components that need nothing but each other."""
    return {
        "etcd": [BIN / "etcd", f"--data-dir={STATE}/etcd", "--unsafe-no-fsync", "--log-level=warn"],
        "kube-apiserver": [
            BIN / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443", f"--advertise-address={NODE_IP}",
            f"--cert-dir={STATE}/certs", f"--service-account-key-file={STATE}/sa.pub", f"--service-account-signing-key-file={STATE}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc", f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--authorization-mode=RBAC", f"--token-auth-file={STATE}/tokens.csv", "--allow-privileged=true",
            # The node's name is nowhere in DNS.
            "--kubelet-preferred-address-types=InternalIP",
        ],
    }


def node():
    """Components that need the API server."""
    client = f"--kubeconfig={KUBECONFIG}"
    return {
        "kube-controller-manager": [
            BIN / "kube-controller-manager", client, "--leader-elect=false", f"--service-account-private-key-file={STATE}/sa.key",
            f"--root-ca-file={STATE}/certs/apiserver.crt", "--allocate-node-cidrs=true", "--cluster-cidr=10.244.0.0/16",
        ],
        "kube-scheduler": [BIN / "kube-scheduler", client, "--leader-elect=false"],
        "kubelet": [
            BIN / "kubelet", client, f"--config={STATE}/kubelet.yaml", f"--root-dir={STATE}/kubelet", f"--hostname-override={NODE}",
            f"--node-ip={NODE_IP}",
        ],
        "kube-proxy": [
            BIN / "kube-proxy", client, f"--hostname-override={NODE}", "--proxy-mode=nftables", f"--cluster-cidr={POD_RANGE}",
            "--conntrack-max-per-core=0",
        ],
        "coredns": [BIN / "coredns", "-conf", STATE / "Corefile"],
        "load-balancer": [sys.executable, HERE / "load-balancer", f"https://{NODE_IP}:6443", STATE, LOAD_BALANCER_RANGE],
    }


def all_components():
    """Every component: its command, the namespace left out."""
    return {"containerd": ["containerd", "-c", STATE / "containerd.toml"], **control_plane(), **node()}


def inside(command):
    return [*INSIDE, *map(str, command)]


def succeeds(*command):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


def ctr(*args):
    """A call of containerd's client for the images and containers of Kubernetes."""
    return ["ctr", "-a", SOCKET, "-n", "k8s.io", *args]


def containerd_answers():
    return succeeds("ctr", "-a", SOCKET, "version")


def api_server_answers():
    # Its own readiness, as the admin, by the address and the certificate that everybody else uses.
    return succeeds(*inside([BIN / "kubectl", f"--kubeconfig={KUBECONFIG}", "get", "--raw=/readyz"]))


def node_is_ready():
    path = "{.status.conditions[?(@.type=='Ready')].status}"
    command = inside([BIN / "kubectl", f"--kubeconfig={KUBECONFIG}", "get", "node", NODE, f"-o=jsonpath={path}"])
    return subprocess.run(command, capture_output=True, text=True).stdout == "True"
