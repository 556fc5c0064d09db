package main

import (
	"bufio"
	"encoding/json"
	"fmt"

	openapi "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"
)

// A bit of everything that the embedded API says in OpenAPI v2.
const swagger = `{
  "swagger": "2.0",
  "info": {"title": "Kubernetes", "version": "v1"},
  "paths": {
    "/api/v1/pods/{name}": {
      "parameters": [{"name": "name", "in": "path", "required": true, "type": "string"}],
      "get": {"produces": ["application/json"], "consumes": ["*/*"], "parameters": [],
        "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/a.Pod"}}}},
      "patch": {
        "produces": ["application/json"], "consumes": ["application/merge-patch+json", "application/json-patch+json"],
        "parameters": [
          {"name": "dryRun", "in": "query", "description": "d", "type": "string"},
          {"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/a.Pod"}}
        ],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": {"group": "", "kind": "Pod", "version": "v1"}
      }
    }
  },
  "definitions": {
    "a.Pod": {
      "type": "object", "description": "A pod.", "required": ["spec", "status"],
      "properties": {
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 5, "minProperties": 2},
        "name": {"type": "string", "pattern": "^a$", "maxLength": 3, "minLength": 1, "enum": ["a", "b"], "title": "t"},
        "open": {"type": "object", "additionalProperties": true},
        "ports": {"type": "array", "items": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535.5},
          "maxItems": 300, "minItems": 1, "uniqueItems": true, "x-kubernetes-list-type": "set"},
        "spec": {"$ref": "#/definitions/a.Pod", "description": "d", "default": {}}
      },
      "x-kubernetes-group-version-kind": [{"group": "", "kind": "Pod", "version": "v1"}]
    }
  }
}`

func writeOpenAPI(out *bufio.Writer) error {
	document, err := openapi.ParseDocument([]byte(swagger))
	if err != nil {
		return err
	}
	if err := compact(document.ProtoReflect()); err != nil {
		return err
	}
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(document)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"document": json.RawMessage(swagger), "protobuf": encoded}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// Rewrites each value of the type Any as JSON without blanks, which is YAML too.
func compact(message protoreflect.Message) error {
	if any, ok := message.Interface().(*openapi.Any); ok {
		text, err := yaml.YAMLToJSON([]byte(any.Yaml))
		any.Yaml = string(text)
		return err
	}
	var failed error
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Kind() != protoreflect.MessageKind {
			return true
		}
		if !field.IsList() {
			failed = compact(value.Message())
			return failed == nil
		}
		for at := range value.List().Len() {
			if failed = compact(value.List().Get(at).Message()); failed != nil {
				return false
			}
		}
		return true
	})
	return failed
}
