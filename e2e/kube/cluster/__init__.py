"""A single-node Kubernetes for tests, in a network namespace of its own. `scripts/kube` is its command line."""
