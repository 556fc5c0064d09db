//! The operations of a kind, with the query parameters that clients look for before they send them.

use serde_json::{Map, Value, json};

use super::schemas::{Schemas, gvk};
use crate::discovery::Virtual;
use crate::kinds::{Gvk, Kind, Subresource};

/// Verb, HTTP method, and what OpenAPI calls it.
const OPERATIONS: &[(&str, &str, &str)] = &[
    ("list", "get", "list"),
    ("create", "post", "post"),
    ("deletecollection", "delete", "deletecollection"),
    ("get", "get", "get"),
    ("update", "put", "put"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
];

const SELECT: &[&str] = &["list", "deletecollection"];
const WRITE: &[&str] = &["create", "update", "patch"];
const DELETE: &[&str] = &["delete", "deletecollection"];
const CHANGE: &[&str] = &["create", "update", "patch", "delete", "deletecollection"];

/// Name, type, the verbs that take it, description.
#[rustfmt::skip]
const PARAMETERS: &[(&str, &str, &[&str], &str)] = &[
    ("allowWatchBookmarks", "boolean", &["list"], "send bookmarks in a watch"),
    ("continue", "string", SELECT, "the token of the page before, for the next one"),
    ("dryRun", "string", CHANGE, "'All': check and answer, but change nothing"),
    ("fieldManager", "string", WRITE, "who owns the fields that this request sets"),
    ("fieldSelector", "string", SELECT, "only objects whose fields match"),
    ("fieldValidation", "string", WRITE, "what to do about unknown and duplicate fields: Ignore, Warn or Strict"),
    ("force", "boolean", &["patch"], "server-side apply: take fields over from their owners"),
    ("gracePeriodSeconds", "integer", DELETE, "how long the object may take to end"),
    ("labelSelector", "string", SELECT, "only objects whose labels match"),
    ("limit", "integer", SELECT, "at most so many objects on a page"),
    ("orphanDependents", "boolean", DELETE, "the old way to say propagationPolicy Orphan"),
    ("propagationPolicy", "string", DELETE, "what becomes of dependents: Orphan, Background or Foreground"),
    ("resourceVersion", "string", SELECT, "the version to list at or to watch from"),
    ("resourceVersionMatch", "string", SELECT, "how resourceVersion is meant: Exact or NotOlderThan"),
    ("sendInitialEvents", "boolean", SELECT, "a watch begins with what is there"),
    ("timeoutSeconds", "integer", SELECT, "when to end a list or watch"),
    ("watch", "boolean", &["list"], "changes as they happen, instead of a list"),
];

const PATCHES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// All operations of a resource that is stored.
pub fn add(
    paths: &mut Map<String, Value>,
    kind: &Kind,
    schema: &Value,
    delete_options: &Value,
    subresources: &[(Subresource<'_>, Value)],
) {
    let own = kind.gvk();
    let everywhere = format!("{}/{}", base(own), kind.plural);
    let home = if kind.namespaced {
        format!("{}/namespaces/{{namespace}}/{}", base(own), kind.plural)
    } else {
        everywhere.clone()
    };
    let main = Resource {
        own,
        schema,
        delete_options,
        strategic: !kind.is_custom(),
    };
    let of_all = ["list", "create", "deletecollection"];
    let (of_all, of_one): (Vec<&str>, Vec<&str>) =
        kind.verbs().iter().partition(|verb| of_all.contains(verb));
    if kind.namespaced {
        main.put(paths, everywhere, &["list"]);
    }
    main.put(paths, home.clone(), &of_all);
    main.put(paths, format!("{home}/{{name}}"), &of_one);
    for (sub, schema) in subresources {
        let own = sub.response;
        Resource { own, schema, ..main }.put(
            paths,
            format!("{home}/{{name}}/{}", sub.name),
            sub.verbs,
        );
    }
}

/// The one operation of a resource that is answered but not stored.
pub fn add_answered(paths: &mut Map<String, Value>, kind: &Virtual, schema: &Value) {
    let own = (kind.group, kind.version, kind.kind);
    let resource = Resource {
        own,
        schema,
        delete_options: &Value::Null,
        strategic: false,
    };
    resource.put(paths, format!("{}/{}", base(own), kind.plural), &["create"]);
}

/// `api/v1` or `apis/<group>/<version>`.
pub fn place(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn base((group, version, _): Gvk<'_>) -> String {
    format!("/{}", place(group, version))
}

#[derive(Clone, Copy)]
struct Resource<'a> {
    own: Gvk<'a>,
    schema: &'a Value,
    delete_options: &'a Value,
    /// Strategic merge patch is for built-in kinds only.
    strategic: bool,
}

impl Resource<'_> {
    fn put(&self, paths: &mut Map<String, Value>, path: String, verbs: &[&str]) {
        let mut item = json!({"parameters": placeholders(&path)});
        for (verb, method, action) in OPERATIONS.iter().filter(|(verb, ..)| verbs.contains(verb)) {
            item[method] = self.operation(verb, action);
        }
        paths.insert(path, item);
    }

    fn operation(&self, verb: &str, action: &str) -> Value {
        let parameters = PARAMETERS.iter().filter(|(_, _, verbs, _)| verbs.contains(&verb));
        let mut operation = json!({
            "parameters": parameters.map(|(name, kind, _, says)| query(name, kind, says)).collect::<Vec<_>>(),
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(self.own),
        });
        let json_of = |schema: &Value| json!({"application/json": {"schema": schema}});
        match verb {
            "create" | "update" => {
                operation["requestBody"] =
                    json!({"content": json_of(self.schema), "required": true})
            }
            "patch" => {
                operation["requestBody"] = json!({"content": self.patches(), "required": true})
            }
            "delete" | "deletecollection" => {
                operation["requestBody"] = json!({"content": json_of(self.delete_options)})
            }
            _ => {}
        }
        if ["get", "create", "update", "patch"].contains(&verb) {
            operation["responses"]["200"]["content"] = json_of(self.schema);
        }
        operation
    }

    fn patches(&self) -> Value {
        let taken = PATCHES
            .iter()
            .filter(|name| self.strategic || !name.contains("strategic"));
        let content = taken.map(|&name| (name.to_owned(), json!({"schema": Schemas::patch()})));
        Value::Object(content.collect())
    }
}

/// The parameters in the path, and `pretty`, which every operation takes.
fn placeholders(path: &str) -> Value {
    let named = ["name", "namespace"]
        .into_iter()
        .filter(|name| path.contains(&format!("{{{name}}}")));
    let named = named.map(
        |name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    );
    named
        .chain([query(
            "pretty",
            "string",
            "'true' for an answer that is laid out for reading",
        )])
        .collect()
}

fn query(name: &str, kind: &str, says: &str) -> Value {
    json!({"name": name, "in": "query", "description": says, "schema": {"type": kind}})
}
