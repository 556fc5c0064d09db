// kubectl, apart from the servers: it is called thousands of times, and would first set up the
// packages of all of them.
package main

import (
	_ "berth.dev/xtask/kubernetes/english"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// It prints its errors itself, in words, and picks the exit code by them.
	util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
}
