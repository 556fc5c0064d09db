package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	_ "k8s.io/client-go/applyconfigurations" // pins the module whose source schemaOfClients reads
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// How server-side apply merges each type, by its OpenAPI name.
type merging struct {
	types map[string]*schema.Map
	// Fields that are part of some list's key, by the type of the list's items: only their defaults
	// matter.
	keys map[string]map[string]bool
}

func loadMerging() (*merging, error) {
	clients, err := schemaOfClients()
	if err != nil {
		return nil, err
	}
	extensions, err := schemaOfExtensions()
	if err != nil {
		return nil, err
	}
	m := &merging{types: map[string]*schema.Map{}, keys: map[string]map[string]bool{}}
	// The clients' schema comes last: where both have a type, it is the fuller one.
	for _, source := range []*schema.Schema{extensions, clients} {
		for _, def := range source.Types {
			if def.Map != nil {
				m.types[def.Name] = def.Map
			}
		}
	}
	for _, def := range m.types {
		for _, field := range def.Fields {
			list := field.Type.Inlined.List
			if list == nil || list.ElementType.NamedType == nil {
				continue
			}
			item := *list.ElementType.NamedType
			for _, key := range list.Keys {
				if m.keys[item] == nil {
					m.keys[item] = map[string]bool{}
				}
				m.keys[item][key] = true
			}
		}
	}
	return m, nil
}

func (m *merging) isAtomic(model string) bool {
	def, ok := m.types[model]
	return ok && def.ElementRelationship == schema.Atomic
}

func (m *merging) field(model, name string) (schema.StructField, bool) {
	if def, ok := m.types[model]; ok {
		return def.FindField(name)
	}
	return schema.StructField{}, false
}

// client-go keeps the schema of its apply configurations in an internal package, so it is read from
// the module's source.
func schemaOfClients() (*schema.Schema, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	if err != nil {
		return nil, fmt.Errorf("find k8s.io/client-go: %w", err)
	}
	path := filepath.Join(strings.TrimSpace(string(dir)), "applyconfigurations", "internal", "internal.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	var literal string
	ast.Inspect(file, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && strings.HasPrefix(text.Value, "`types:") {
			literal = text.Value
		}
		return literal == ""
	})
	yaml, err := strconv.Unquote(literal)
	if err != nil {
		return nil, fmt.Errorf("%s has no schema: %w", path, err)
	}
	parsed, err := typed.NewParser(typed.YAMLObject(yaml))
	if err != nil {
		return nil, err
	}
	return &parsed.Schema, nil
}

// CustomResourceDefinition is not among the clients' types.
func schemaOfExtensions() (*schema.Schema, error) {
	models := map[string]*spec.Schema{}
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	for name, definition := range openapi.GetOpenAPIDefinitions(ref) {
		models[name] = &definition.Schema
	}
	return schemaconv.ToSchemaFromOpenAPI(models, false)
}

// The name by which OpenAPI knows a Go type, "" for one that it does not know.
func modelName(t reflect.Type) string {
	if named, ok := reflect.Zero(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	return ""
}
