// Writes the field table of the built-in kinds (field_table.txt of apimachinery), or test vectors
// for protobuf bodies and for OpenAPI v2 in protobuf.
//
//	go run .          > ../../kubernetes/apimachinery/src/shape/field_table.txt
//	go run . -vectors > ../../kubernetes/apimachinery/tests/vectors/protobuf.json
//	go run . -openapi > ../../kubernetes/apimachinery/tests/vectors/openapi_v2.json
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"reflect"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the embedded API serves or reads. "*" is a kind that every group has.
var kinds = []struct {
	apiVersion string
	value      any
}{
	{"*", meta.DeleteOptions{}},
	{"admissionregistration.k8s.io/v1", admissionregistration.ValidatingAdmissionPolicy{}},
	{"admissionregistration.k8s.io/v1", admissionregistration.ValidatingAdmissionPolicyBinding{}},
	{"apiextensions.k8s.io/v1", apiextensions.CustomResourceDefinition{}},
	{"apps/v1", apps.DaemonSet{}},
	{"apps/v1", apps.Deployment{}},
	{"apps/v1", apps.ReplicaSet{}},
	{"authentication.k8s.io/v1", authentication.SelfSubjectReview{}},
	{"authentication.k8s.io/v1", authentication.TokenRequest{}},
	{"authorization.k8s.io/v1", authorization.SelfSubjectAccessReview{}},
	{"authorization.k8s.io/v1", authorization.SelfSubjectRulesReview{}},
	{"authorization.k8s.io/v1", authorization.SubjectAccessReview{}},
	{"autoscaling/v1", autoscaling.Scale{}},
	{"batch/v1", batch.Job{}},
	{"coordination.k8s.io/v1", coordination.Lease{}},
	{"events.k8s.io/v1", events.Event{}},
	{"meta.k8s.io/v1", meta.ObjectMeta{}},
	{"networking.k8s.io/v1", networking.ServiceCIDR{}},
	{"policy/v1", policy.Eviction{}},
	{"rbac.authorization.k8s.io/v1", rbac.ClusterRole{}},
	{"rbac.authorization.k8s.io/v1", rbac.ClusterRoleBinding{}},
	{"rbac.authorization.k8s.io/v1", rbac.Role{}},
	{"rbac.authorization.k8s.io/v1", rbac.RoleBinding{}},
	{"v1", core.Binding{}},
	{"v1", core.ConfigMap{}},
	{"v1", core.Event{}},
	{"v1", core.Namespace{}},
	{"v1", core.Node{}},
	{"v1", core.Pod{}},
	{"v1", core.PodTemplateSpec{}},
	{"v1", core.Secret{}},
	{"v1", core.Service{}},
	{"v1", core.ServiceAccount{}},
}

const header = `# The fields of the built-in kinds of Kubernetes 1.36, as facts: names, protobuf numbers, types, and how lists and maps merge.
# Made by:  cd xtask/fields && go run . > ../../kubernetes/apimachinery/src/shape/field_table.txt
#
# A line at the margin opens a type; "atomic" after its name: it has one owner in server-side apply. A type stands below all that it is made of.
# An indented line is a field:  name number type [word...]
#   number  in protobuf; "2.1" is field 1 of the message in field 2, which JSON inlines; "-" is none
#   type    "*" a pointer, "[]" a list, "{}" a map from strings; then a scalar or a type from above
#   words   map=a,b  a list of objects with these keys, in server-side apply    set      a list of scalars, each with an owner
#           atomic   a map with one owner (a list has one unless it says otherwise)
#           merge=a  strategic merge patch matches items by this key            merge    it makes the union of scalars
#           retain   strategic merge patch: $retainKeys acts here               always   a scalar that is written even when zero
#           default= what a missing value counts as in a list key, as JSON
# "kind" lines at the end name the type of each kind.
`

func main() {
	vectors := flag.Bool("vectors", false, "write test vectors for protobuf bodies instead of the table")
	openapi := flag.Bool("openapi", false, "write a test vector for OpenAPI v2 instead of the table")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	if err := write(out, *vectors, *openapi); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(out *bufio.Writer, vectors, openapi bool) error {
	if vectors {
		return writeVectors(out)
	}
	if openapi {
		return writeOpenAPI(out)
	}
	merging, err := loadMerging()
	if err != nil {
		return err
	}
	table := newTable(merging)
	var names []string
	for _, kind := range kinds {
		name, err := table.add(reflect.TypeOf(kind.value))
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	out.WriteString(header)
	table.print(out)
	out.WriteString("\n")
	for at, kind := range kinds {
		fmt.Fprintf(out, "kind %s %s %s\n", kind.apiVersion, reflect.TypeOf(kind.value).Name(), names[at])
	}
	return nil
}
