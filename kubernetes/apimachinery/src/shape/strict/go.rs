//! The messages of Go's JSON decoder, which users of Kubernetes know: `json: cannot unmarshal
//! string into Go struct field DeploymentSpec.spec.replicas of type int32`.

use serde_json::Value;

use crate::shape::{Scalar, Shape};
use crate::trail::Trail;

pub(super) fn mismatch(given: &Value, expected: &str, outermost: &str, at: &Trail<'_>) -> String {
    let given = match given {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        // A number out of range is shown, but not one in place of another type.
        Value::Number(number) if matches!(expected, "int32" | "int64") => {
            format!("number {number}")
        }
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    let names = fields(at);
    if names.is_empty() {
        return format!("json: cannot unmarshal {given} into Go value of type {expected}");
    }
    let holder = struct_name(&names[..names.len() - 1], outermost);
    format!(
        "json: cannot unmarshal {given} into Go struct field {holder}.{} of type {expected}",
        names.join(".")
    )
}

pub(super) fn type_name(shape: &Shape, at: &Trail<'_>, outermost: &str) -> String {
    match shape {
        Shape::Scalar(scalar) => scalar_name(*scalar).to_owned(),
        Shape::Object(_) => format!("v1.{}", struct_name(&fields(at), outermost)),
        Shape::Map(map) => format!("map[string]{}", type_name(&map.value, at, outermost)),
        Shape::List(list) => format!("[]{}", type_name(&list.item, at, outermost)),
        Shape::Any => "interface {}".to_owned(),
    }
}

pub(super) fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "bool",
        Scalar::Int32 | Scalar::IntOrString => "int32",
        Scalar::Int64 => "int64",
        Scalar::Float => "float64",
        Scalar::Bytes => "[]uint8",
        Scalar::String
        | Scalar::Time
        | Scalar::MicroTime
        | Scalar::Duration
        | Scalar::Quantity
        | Scalar::Raw => "string",
    }
}

/// The field names of the path, without indices and keys.
fn fields<'t>(at: &Trail<'t>) -> Vec<&'t str> {
    match at {
        Trail::Root => Vec::new(),
        Trail::Field(parent, name) => {
            let mut names = fields(parent);
            names.push(name);
            names
        }
        Trail::Key(parent, _) | Trail::Index(parent, _) => fields(parent),
    }
}

/// The Go type at this path. Shapes have no type names, but those of Kubernetes can be guessed from
/// the fields.
fn struct_name(names: &[&str], outermost: &str) -> String {
    let (holders, name) = match names {
        [] => return outermost.to_owned(),
        [holders @ .., name] => (holders, *name),
    };
    match name {
        "metadata" => "ObjectMeta".to_owned(),
        "spec" | "status" if holders.is_empty() => outermost.to_owned() + &capitalized(name),
        "spec" => "PodSpec".to_owned(),
        "template" => "PodTemplateSpec".to_owned(),
        "selector" => "LabelSelector".to_owned(),
        "env" => "EnvVar".to_owned(),
        "ports" if holders.last() == Some(&"spec") => "ServicePort".to_owned(),
        "ports" => "ContainerPort".to_owned(),
        "resources" => "ResourceRequirements".to_owned(),
        "initContainers" => "Container".to_owned(),
        "strategy" => outermost.to_owned() + "Strategy",
        "rollingUpdate" => "RollingUpdate".to_owned() + outermost,
        "httpGet" => "HTTPGetAction".to_owned(),
        "livenessProbe" | "readinessProbe" | "startupProbe" => "Probe".to_owned(),
        _ => capitalized(name.strip_suffix('s').unwrap_or(name)),
    }
}

fn capitalized(name: &str) -> String {
    let mut letters = name.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
