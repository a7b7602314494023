//go:build tools

// Package addons names the programs beside the cluster: its DNS server, helm, and the echo server of the Gateway API's
// conformance suite. They are a module of their own because they need other versions of the libraries that Kubernetes uses.
package addons

import (
	_ "github.com/coredns/coredns"
	_ "helm.sh/helm/v4/cmd/helm"
	_ "sigs.k8s.io/gateway-api/conformance/echo-basic"
)
