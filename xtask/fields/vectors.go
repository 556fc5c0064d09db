package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	events "k8s.io/api/events/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type vector struct {
	Name string          `json:"name"`
	Body string          `json:"body"`
	JSON json.RawMessage `json:"json"`
}

// Each vector has a protobuf body in hexadecimal, and the JSON that Go writes for the same object.
// First comes one object of each kind with every field set, then cases by hand.
func writeVectors(out *bufio.Writer) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme, autoscaling.AddToScheme, coordination.AddToScheme,
		core.AddToScheme, events.AddToScheme, policy.AddToScheme, rbac.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	encoder := protobuf.NewSerializer(scheme, scheme)
	objects := append(filled(), cases()...)
	out.WriteString("[")
	for at, object := range objects {
		var body bytes.Buffer
		if err := encoder.Encode(object.value, &body); err != nil {
			return fmt.Errorf("%s: %w", object.name, err)
		}
		asJSON, err := json.Marshal(object.value)
		if err != nil {
			return fmt.Errorf("%s: %w", object.name, err)
		}
		line, err := json.Marshal(vector{object.name, hex.EncodeToString(body.Bytes()), asJSON})
		if err != nil {
			return err
		}
		if at > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(out, "\n%s", line)
	}
	out.WriteString("\n]\n")
	return nil
}

type named struct {
	name  string
	value runtime.Object
}

// One object of each kind with a value in every field.
func filled() []named {
	var objects []named
	for _, kind := range kinds {
		goType := reflect.TypeOf(kind.value)
		value := reflect.New(goType)
		object, ok := value.Interface().(runtime.Object)
		// Definitions of custom resources are recursive, and clients send them as JSON.
		if !ok || goType.Name() == "CustomResourceDefinition" {
			continue
		}
		f := &filler{whole: goType.Name() == "Pod"}
		f.fill(value.Elem(), "")
		typeMeta := meta.TypeMeta{APIVersion: strings.ReplaceAll(kind.apiVersion, "*", "v1"), Kind: goType.Name()}
		value.Elem().FieldByName("TypeMeta").Set(reflect.ValueOf(typeMeta))
		objects = append(objects, named{"every field of " + kind.apiVersion + " " + goType.Name(), object})
	}
	return objects
}

// Gives every field a value of its own, so that two swapped fields are noticed.
type filler struct {
	count int64
	// Fill pod templates too; they are large, and a Pod has the same fields.
	whole bool
}

func (f *filler) fill(value reflect.Value, name string) {
	f.count++
	switch value.Interface().(type) {
	case meta.Time:
		value.Set(reflect.ValueOf(meta.Unix(1_700_000_000+f.count, 0).Rfc3339Copy()))
		return
	case meta.MicroTime:
		value.Set(reflect.ValueOf(meta.NewMicroTime(time.Unix(1_700_000_000, f.count*1000).UTC())))
		return
	case meta.FieldsV1:
		value.Set(reflect.ValueOf(meta.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{".":{}}}}`)}))
		return
	case resource.Quantity:
		value.Set(reflect.ValueOf(resource.MustParse(fmt.Sprintf("%dm", f.count))))
		return
	case intstr.IntOrString:
		either := intstr.FromInt32(int32(f.count))
		if f.count%2 == 0 {
			either = intstr.FromString(fmt.Sprintf("%d%%", f.count))
		}
		value.Set(reflect.ValueOf(either))
		return
	case []byte:
		value.SetBytes([]byte{0, 0xff, byte(f.count)})
		return
	case core.PodSpec:
		if !f.whole {
			value.Set(reflect.ValueOf(core.PodSpec{Containers: []core.Container{{Name: "web", Image: "x"}}}))
			return
		}
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(fmt.Sprintf("%s-%d", name, f.count))
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(f.count)
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		f.fill(value.Elem(), name)
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		f.fill(value.Index(0), name)
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for range 2 {
			key, item := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
			f.fill(key, name)
			f.fill(item, name)
			value.SetMapIndex(key, item)
		}
	case reflect.Struct:
		for at := range value.NumField() {
			field := value.Type().Field(at)
			if field.Type != reflect.TypeFor[meta.TypeMeta]() && !isWrappedList(field.Type) {
				f.fill(value.Field(at), strings.ToLower(field.Name))
			}
		}
	}
}

// What filling does not show: zeros that are given, messages that are empty, and what kubectl's
// typed commands send.
func cases() []named {
	zero32, zero64, no, nothing := int32(0), int64(0), false, ""
	labels := map[string]string{"app": "web"}
	kind := func(apiVersion, kind string) meta.TypeMeta { return meta.TypeMeta{APIVersion: apiVersion, Kind: kind} }
	return []named{
		{"a namespace with a name only", &core.Namespace{
			TypeMeta: kind("v1", "Namespace"), ObjectMeta: meta.ObjectMeta{Name: "team"},
		}},
		{"a deployment with 20 replicas", &apps.Deployment{
			TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: meta.ObjectMeta{Name: "web", Labels: labels},
			Spec: apps.DeploymentSpec{
				Replicas: new(int32(20)), Selector: &meta.LabelSelector{MatchLabels: labels},
				Template: core.PodTemplateSpec{
					ObjectMeta: meta.ObjectMeta{Labels: labels},
					Spec:       core.PodSpec{Containers: []core.Container{{Name: "x", Image: "x"}}},
				},
			},
		}},
		{"a deployment with zeros that count", &apps.Deployment{
			TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: meta.ObjectMeta{Name: "none"},
			Spec: apps.DeploymentSpec{
				Replicas: &zero32, RevisionHistoryLimit: &zero32, Selector: &meta.LabelSelector{},
				Strategy: apps.DeploymentStrategy{RollingUpdate: &apps.RollingUpdateDeployment{
					MaxSurge: new(intstr.FromInt32(0)), MaxUnavailable: new(intstr.FromString("")),
				}},
				Template: core.PodTemplateSpec{Spec: core.PodSpec{Containers: []core.Container{{}}}},
			},
		}},
		{"a pod with empty messages and zeros", &core.Pod{
			TypeMeta: kind("v1", "Pod"), ObjectMeta: meta.ObjectMeta{Name: "p", DeletionGracePeriodSeconds: &zero64},
			Spec: core.PodSpec{
				Volumes: []core.Volume{
					{Name: "scratch", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}},
					{Name: "settings", VolumeSource: core.VolumeSource{ConfigMap: &core.ConfigMapVolumeSource{
						LocalObjectReference: core.LocalObjectReference{Name: "settings"}, DefaultMode: &zero32,
					}}},
				},
				Containers: []core.Container{{
					Name: "c", Command: []string{"", "a"}, Ports: []core.ContainerPort{{}},
					Env:           []core.EnvVar{{Name: "EMPTY"}, {ValueFrom: &core.EnvVarSource{ResourceFieldRef: &core.ResourceFieldSelector{}}}},
					LivenessProbe: &core.Probe{ProbeHandler: core.ProbeHandler{TCPSocket: &core.TCPSocketAction{}}},
					Resources: core.ResourceRequirements{Limits: core.ResourceList{
						"cpu": resource.MustParse("0"), "memory": resource.MustParse("1Gi"), "nvidia.com/gpu": {},
					}},
				}},
				AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &zero64, RuntimeClassName: &nothing,
				SecurityContext: &core.PodSecurityContext{SupplementalGroups: []int64{0, 1, -1, 1 << 40}},
				NodeSelector:    map[string]string{"": "", "zone": ""},
				Affinity:        &core.Affinity{NodeAffinity: &core.NodeAffinity{}},
			},
			Status: core.PodStatus{ContainerStatuses: []core.ContainerStatus{{Name: "c", State: core.ContainerState{
				Terminated: &core.ContainerStateTerminated{ExitCode: -1},
			}}}},
		}},
		{"a service with a port by name", &core.Service{
			TypeMeta: kind("v1", "Service"), ObjectMeta: meta.ObjectMeta{Name: "web", Labels: labels},
			Spec: core.ServiceSpec{Selector: labels, Type: core.ServiceTypeClusterIP, Ports: []core.ServicePort{
				{Name: "http", Port: 80, Protocol: core.ProtocolTCP, TargetPort: intstr.FromString("http")},
				{Port: 81},
			}},
		}},
		{"a secret with all bytes and with none", &core.Secret{
			TypeMeta: kind("v1", "Secret"), ObjectMeta: meta.ObjectMeta{Name: "s"}, Immutable: &no,
			Data: map[string][]byte{"all": {0, 1, 127, 128, 255}, "none": {}}, Type: core.SecretTypeOpaque,
		}},
		{"a config map with text beyond ASCII", &core.ConfigMap{
			TypeMeta: kind("v1", "ConfigMap"), ObjectMeta: meta.ObjectMeta{Name: "ü"}, Data: map[string]string{"🦀": "line\nline\t\"\\", "empty": ""},
		}},
		{"a node without addresses", &core.Node{
			TypeMeta: kind("v1", "Node"), ObjectMeta: meta.ObjectMeta{Name: "n"}, Spec: core.NodeSpec{Unschedulable: true},
			Status: core.NodeStatus{Capacity: core.ResourceList{"pods": resource.MustParse("110")}},
		}},
		{"a lease renewed on a whole second", &coordination.Lease{
			TypeMeta: kind("coordination.k8s.io/v1", "Lease"), ObjectMeta: meta.ObjectMeta{Name: "l"},
			Spec: coordination.LeaseSpec{RenewTime: new(meta.NewMicroTime(time.Unix(1_700_000_000, 0).UTC())), LeaseTransitions: &zero32},
		}},
		{"a time before 1970", &core.Node{
			TypeMeta: kind("v1", "Node"), ObjectMeta: meta.ObjectMeta{Name: "n", CreationTimestamp: meta.Unix(-1, 0).Rfc3339Copy()},
		}},
		{"delete options with a grace period of zero", &meta.DeleteOptions{
			TypeMeta: kind("apps/v1", "DeleteOptions"), GracePeriodSeconds: &zero64, PropagationPolicy: new(meta.DeletePropagationForeground),
			Preconditions: &meta.Preconditions{},
		}},
		{"an eviction with options", &policy.Eviction{
			TypeMeta: kind("policy/v1", "Eviction"), ObjectMeta: meta.ObjectMeta{Name: "p", Namespace: "default"},
			DeleteOptions: &meta.DeleteOptions{DryRun: []string{meta.DryRunAll}},
		}},
		{"may I", &authorization.SelfSubjectAccessReview{
			TypeMeta: kind("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
			Spec:     authorization.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorization.ResourceAttributes{Verb: "create", Resource: "pods"}},
		}},
	}
}
