// All servers of Kubernetes that the tests run beside Berth, and etcd, in one binary: each program
// by the name it is called by. One binary because each of them would link the same packages again.
//
//	CGO_ENABLED=0 go build -trimpath -o berth-kubernetes \
//	    -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.4" .
//
// Without the version, clients take the server for v0.0.0.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// Constructors, not commands: making one registers flags and feature gates that would disturb
// another.
var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if server, ok := servers[name]; ok {
		os.Exit(cli.Run(server()))
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	default:
		fmt.Fprintf(os.Stderr, "%s: call this by the name of what to run: kube-apiserver, kube-controller-manager, kube-scheduler, kubelet or etcd\n", name)
		os.Exit(2)
	}
}
