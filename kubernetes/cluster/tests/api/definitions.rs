//! Berth's own definitions: objects are held to every rule in them, by the field and in the words
//! of the cases that `berth-api` is tested with.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use berth_api::crds;
use berth_testkit::until_so;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::namespace::{Namespace, unique};
use crate::request::{Answer, delete, get, patch, post, put};

/// Puts the definitions there, once, and waits until their kinds are served. They stay: other runs
/// use them at the same time.
pub fn serve() {
    static SERVED: LazyLock<()> = LazyLock::new(|| {
        for definition in crds::all() {
            let path = format!(
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}",
                definition.name_any()
            );
            let body = serde_json::to_value(&definition).unwrap();
            patch(path)
                .query("fieldManager=berth-tests&force=true")
                .of_type("apply", &body)
                .send();
            let all = Kind::of(&definition).everywhere();
            until_so(&format!("{all} is served"), || get(&all).send().code == 200);
        }
    });
    LazyLock::force(&SERVED);
}

#[derive(Debug, Deserialize)]
struct Case {
    promise: String,
    before: Option<Value>,
    object: Value,
    #[serde(default)]
    refused: Vec<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct Refusal {
    field: String,
    message: String,
}

/// Where the objects of a definition are.
struct Kind {
    version: String,
    plural: String,
    namespaced: bool,
    status: bool,
}

impl Kind {
    fn of(definition: &CustomResourceDefinition) -> Self {
        let spec = &definition.spec;
        let subresources = spec.versions[0].subresources.as_ref();
        Self {
            version: format!("{}/{}", spec.group, spec.versions[0].name),
            plural: spec.names.plural.clone(),
            namespaced: spec.scope == "Namespaced",
            status: subresources.is_some_and(|all| all.status.is_some()),
        }
    }

    fn everywhere(&self) -> String {
        format!("/apis/{}/{}", self.version, self.plural)
    }

    fn collection(&self, namespace: &Namespace) -> String {
        if self.namespaced {
            namespace.group(&self.version, &self.plural)
        } else {
            self.everywhere()
        }
    }

    /// Writes the object over the one that is there, if any, then its status, which is written by
    /// itself.
    fn write(
        &self,
        namespace: &Namespace,
        live: Option<Value>,
        object: &Value,
    ) -> Result<Value, Vec<Refusal>> {
        let collection = self.collection(namespace);
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let written = match live {
            None => post(&collection).json(object).send(),
            Some(live) => put(&path).json(&over(&live, object)).send(),
        };
        let written = accepted(written)?;
        if !self.status || object["status"].is_null() {
            return Ok(written);
        }
        accepted(put(format!("{path}/status")).json(&over(&written, object)).send())
    }

    /// What a server makes of a case. Nothing is left of it.
    fn put(&self, namespace: &Namespace, case: &Case) -> Vec<Refusal> {
        let own = unique("rule");
        let about_the_name = case.refused.iter().any(|refusal| refusal.field == "metadata.name");
        let ours = |object: &Value| {
            let mut object = object.clone();
            if !about_the_name {
                object["metadata"]["name"] = json!(own);
            }
            if self.namespaced {
                object["metadata"]["namespace"] = json!(namespace.name);
            }
            object
        };
        let live = case.before.as_ref().map(|before| {
            let made = self.write(namespace, None, &ours(before));
            made.unwrap_or_else(|refused| panic!("{}: before: {refused:?}", case.promise))
        });
        let outcome = self.write(namespace, live, &ours(&case.object));
        let path = format!("{}/{own}", self.collection(namespace));
        patch(&path)
            .of_type("merge", &json!({"metadata": {"finalizers": null}}))
            .send();
        delete(&path).send();
        outcome.err().unwrap_or_default()
    }
}

/// The object as an update of the one that is there.
fn over(live: &Value, object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    object
}

fn accepted(answer: Answer) -> Result<Value, Vec<Refusal>> {
    let code = answer.code;
    let object: Value = serde_json::from_slice(&answer.body).unwrap();
    if code == 200 || code == 201 {
        return Ok(object);
    }
    assert_eq!((code, &object["reason"]), (422, &json!("Invalid")), "{object}");
    let causes = object["details"]["causes"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let refusals = causes.map(|cause| Refusal {
        field: text(&cause["field"]),
        message: text(&cause["message"]),
    });
    // That rules were not looked at because of something else.
    Err(refusals.filter(|refusal| refusal.field != "<nil>").collect())
}

/// Field and message of every rule in a schema. Indices are left out of the field.
fn rules(schema: &Value, at: &str, found: &mut BTreeSet<(String, String)>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let field = format!("{at}{}", rule["fieldPath"].as_str().unwrap_or_default());
        let message = rule["message"].as_str().unwrap();
        found.insert((field.trim_start_matches('.').to_owned(), message.to_owned()));
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        rules(property, &format!("{at}.{name}"), found);
    }
    for (part, at) in [
        ("items", format!("{at}[]")),
        ("additionalProperties", format!("{at}.*")),
    ] {
        if schema[part].is_object() {
            rules(&schema[part], &at, found);
        }
    }
}

/// Puts every case to the server. Each rule of the definition must have refused one of them.
fn hold(kind: &str, cases: &str) {
    serve();
    let definitions = crds::all();
    let definition = definitions.iter().find(|all| all.spec.names.kind == kind).unwrap();
    let served = Kind::of(definition);
    let namespace = Namespace::new();
    let cases: Vec<Case> = serde_saphyr::from_str(cases).unwrap();
    let (mut wrong, mut told) = (Vec::new(), Vec::new());
    for case in &cases {
        let found = served.put(&namespace, case);
        let fits = |wanted: &Refusal| {
            let same = |refusal: &&Refusal| {
                refusal.field == wanted.field && refusal.message.contains(&wanted.message)
            };
            found.iter().any(|refusal| same(&refusal))
        };
        if found.len() != case.refused.len() || !case.refused.iter().all(fits) {
            wrong.push(format!("{}: {found:#?}", case.promise));
        }
        told.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let schema = serde_json::to_value(&definition.spec.versions[0].schema).unwrap();
    let mut all = BTreeSet::new();
    rules(&schema["openAPIV3Schema"], "", &mut all);
    let index = Regex::new(r"\[\d+\]").unwrap();
    all.retain(|(field, message)| {
        let by_it = |refusal: &Refusal| {
            index.replace_all(&refusal.field, "[]") == field.as_str()
                && refusal.message.contains(message)
        };
        !told.iter().any(by_it)
    });
    assert!(all.is_empty(), "no case is against {all:#?}");
}

#[test]
fn subnets_are_held_to_every_rule() {
    hold(
        "Subnet",
        include_str!("../../../../crates/api/tests/rules/subnets.yaml"),
    );
}

#[test]
fn node_network_configs_are_held_to_every_rule() {
    hold(
        "NodeNetworkConfig",
        include_str!("../../../../crates/api/tests/rules/nodenetworkconfigs.yaml"),
    );
}

#[test]
fn address_blocks_are_held_to_every_rule() {
    hold(
        "AddressBlock",
        include_str!("../../../../crates/api/tests/rules/addressblocks.yaml"),
    );
}
