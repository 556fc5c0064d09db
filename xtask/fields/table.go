package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// Go types that JSON shows as one value.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():                     "time",
	reflect.TypeFor[meta.MicroTime]():                "microtime",
	reflect.TypeFor[meta.Duration]():                 "duration",
	reflect.TypeFor[meta.FieldsV1]():                 "raw",
	reflect.TypeFor[resource.Quantity]():             "quantity",
	reflect.TypeFor[intstr.IntOrString]():            "intorstring",
	reflect.TypeFor[runtime.RawExtension]():          "raw",
	reflect.TypeFor[apiextensions.JSON]():            "raw",
	reflect.TypeFor[apiextensions.JSONSchemaProps](): "any",
}

var scalarKinds = map[reflect.Kind]string{
	reflect.String:  "string",
	reflect.Bool:    "bool",
	reflect.Int32:   "int32",
	reflect.Int64:   "int64",
	reflect.Float64: "float",
}

type table struct {
	merging *merging
	// Types whose fields are written already, in the order of writing; nil while under way, to find
	// cycles.
	types map[string][]string
	order []string
}

func newTable(m *merging) *table {
	return &table{merging: m, types: map[string][]string{}}
}

// Adds a struct and all that it is made of; returns its name in the table.
func (t *table) add(goType reflect.Type) (string, error) {
	name := shortName(goType)
	if lines, seen := t.types[name]; seen {
		if lines == nil {
			return "", fmt.Errorf("%s contains itself", name)
		}
		return name, nil
	}
	t.types[name] = nil
	model := modelName(goType)
	head := name
	if t.merging.isAtomic(model) {
		head += " atomic"
	}
	lines, err := t.fields(goType, model, "")
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	slices.Sort(lines)
	t.types[name] = append([]string{head}, lines...)
	t.order = append(t.order, name)
	return name, nil
}

// "core.Pod" for k8s.io/api/core/v1.Pod; one version of each group is served, so the version says
// nothing.
func shortName(goType reflect.Type) string {
	parts := strings.Split(goType.PkgPath(), "/")
	return parts[len(parts)-2] + "." + goType.Name()
}

// The lines of a struct's fields. The model is that of the outermost struct: OpenAPI inlines what
// JSON inlines.
func (t *table) fields(goType reflect.Type, model, number string) ([]string, error) {
	var lines []string
	for at := range goType.NumField() {
		field := goType.Field(at)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		own := protobufNumber(field, number)
		var err error
		if name == "" && strings.Contains(options, "inline") {
			var inlined []string
			inlined, err = t.fields(field.Type, model, own)
			lines = append(lines, inlined...)
		} else if name != "" && name != "-" {
			var line string
			line, err = t.field(field, name, options, model, own)
			lines = append(lines, line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name, err)
		}
	}
	return lines, nil
}

// The path of numbers to a field, "-" for what protobuf carries elsewhere (apiVersion, kind) or not
// at all.
func protobufNumber(field reflect.StructField, outer string) string {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	switch {
	case len(parts) < 2, outer == "-", isWrappedList(field.Type):
		return "-"
	case outer == "":
		return parts[1]
	default:
		return outer + "." + parts[1]
	}
}

func (t *table) field(field reflect.StructField, name, options, model, number string) (string, error) {
	goType, err := t.typeName(field.Type)
	if err != nil {
		return "", err
	}
	words := []string{name, number, goType}
	words = append(words, t.mergeWords(model, name)...)
	patch, err := patchWords(field.Tag)
	if err != nil {
		return "", err
	}
	words = append(words, patch...)
	if isAlways(field.Type, options) {
		words = append(words, "always")
	}
	if known, ok := t.merging.field(model, name); ok && known.Default != nil && t.merging.keys[model][name] {
		value, err := json.Marshal(known.Default)
		if err != nil {
			return "", err
		}
		words = append(words, "default="+string(value))
	}
	return "  " + strings.Join(words, " "), nil
}

// The type in the table's notation; structs on the way are added.
func (t *table) typeName(goType reflect.Type) (string, error) {
	if scalar, ok := scalars[goType]; ok {
		return scalar, nil
	}
	if scalar, ok := scalarKinds[goType.Kind()]; ok {
		return scalar, nil
	}
	if goType == reflect.TypeFor[[]byte]() {
		return "bytes", nil
	}
	prefix := map[reflect.Kind]string{reflect.Pointer: "*", reflect.Slice: "[]", reflect.Map: "{}"}[goType.Kind()]
	switch {
	case goType.Kind() == reflect.Struct:
		return t.add(goType)
	case prefix == "", goType.Kind() == reflect.Map && goType.Key().Kind() != reflect.String:
		return "", fmt.Errorf("no notation for %s", goType)
	}
	inner, err := t.typeName(goType.Elem())
	return prefix + inner, err
}

// A map of lists is a map of messages in protobuf, which have no place in JSON. Only reviews of
// other users' rights have one, and no client sends those as protobuf.
func isWrappedList(goType reflect.Type) bool {
	return goType.Kind() == reflect.Map && goType.Elem().Kind() == reflect.Slice && goType.Elem().Elem().Kind() != reflect.Uint8
}

// Go's omitempty does nothing for structs, and some of our scalars are structs in Go. A time that
// is zero is null, which counts as absent.
func isAlways(goType reflect.Type, options string) bool {
	if strings.Contains(options, "omitzero") {
		return false
	}
	if scalar, ok := scalars[goType]; ok {
		return scalar == "quantity" || scalar == "intorstring" || scalar == "duration"
	}
	_, ok := scalarKinds[goType.Kind()]
	return ok && !strings.Contains(options, "omitempty")
}

func (t *table) mergeWords(model, name string) []string {
	field, ok := t.merging.field(model, name)
	if !ok {
		return nil
	}
	if list := field.Type.Inlined.List; list != nil && list.ElementRelationship == schema.Associative {
		if len(list.Keys) == 0 {
			return []string{"set"}
		}
		return []string{"map=" + strings.Join(list.Keys, ",")}
	}
	override := field.Type.ElementRelationship
	inlined := field.Type.Inlined.Map
	if override != nil && *override == schema.Atomic || inlined != nil && inlined.ElementRelationship == schema.Atomic {
		return []string{"atomic"}
	}
	return nil
}

func patchWords(tag reflect.StructTag) ([]string, error) {
	var words []string
	for strategy := range strings.SplitSeq(tag.Get("patchStrategy"), ",") {
		switch strategy {
		case "", "replace":
		case "merge":
			word := "merge"
			if key := tag.Get("patchMergeKey"); key != "" {
				word += "=" + key
			}
			words = append(words, word)
		case "retainKeys":
			words = append(words, "retain")
		default:
			return nil, fmt.Errorf("patch strategy %q", strategy)
		}
	}
	return words, nil
}

func (t *table) print(out *bufio.Writer) {
	for _, name := range t.order {
		fmt.Fprintf(out, "\n%s\n", strings.Join(t.types[name], "\n"))
	}
}
