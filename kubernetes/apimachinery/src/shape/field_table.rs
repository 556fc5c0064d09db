//! Shapes of the built-in kinds, from the field table beside this file.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::{Field, List, ListKind, ListPatch, Map, Object, Scalar, Shape};

/// The shape of a built-in kind, or of `ObjectMeta` (`meta.k8s.io/v1`), which custom resources
/// share.
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Arc<Shape>> {
    // A damaged table would make every kind unknown. The tests check that it is complete.
    static TABLE: LazyLock<Table> =
        LazyLock::new(|| parse(include_str!("field_table.txt")).unwrap_or_default());
    TABLE.find(group, version, kind)
}

#[derive(Default)]
struct Table {
    /// The versions of each kind.
    kinds: HashMap<&'static str, Vec<(&'static str, Arc<Shape>)>>,
}

impl Table {
    fn find(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Shape>> {
        let versions = self.kinds.get(kind)?;
        let (_, shape) =
            versions
                .iter()
                .find(|(api_version, _)| match api_version.split_once('/') {
                    Some((known_group, known_version)) => {
                        known_group == group && known_version == version
                    }
                    None => *api_version == "*" || (group.is_empty() && *api_version == version),
                })?;
        Some(shape.clone())
    }
}

type Types = HashMap<&'static str, Arc<Shape>>;

/// Reads the table in one pass: a type comes after the types that it uses. The error is the line
/// that can't be read.
fn parse(text: &'static str) -> Result<Table, &'static str> {
    let mut table = Table::default();
    let mut types = Types::new();
    for block in text.split("\n\n") {
        if block.starts_with('#') {
            continue;
        }
        if block.starts_with("kind ") {
            for line in block.lines() {
                let (kind, version, shape) = parse_kind(line, &types).ok_or(line)?;
                table.kinds.entry(kind).or_default().push((version, shape));
            }
            continue;
        }
        let mut lines = block.lines();
        let head = lines.next().ok_or(block)?;
        let (name, atomic) = match head.strip_suffix(" atomic") {
            Some(name) => (name, true),
            None => (head, false),
        };
        let fields = lines
            .map(|line| parse_field(line, &types).ok_or(line))
            .collect::<Result<_, _>>()?;
        let object = Object {
            fields,
            open: false,
            atomic,
        };
        types.insert(name, Arc::new(Shape::Object(object)));
    }
    Ok(table)
}

fn parse_kind(
    line: &'static str,
    types: &Types,
) -> Option<(&'static str, &'static str, Arc<Shape>)> {
    let mut words = line.split(' ').skip(1);
    let (version, kind, name) = (words.next()?, words.next()?, words.next()?);
    Some((kind, version, types.get(name)?.clone()))
}

fn parse_field(line: &str, types: &Types) -> Option<(String, Field)> {
    let mut words = line.strip_prefix("  ")?.split(' ');
    let (name, number, type_name) = (words.next()?, words.next()?, words.next()?);
    let tag = match number {
        "-" => Vec::new(),
        path => path.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?,
    };
    let (pointer, type_name) = match type_name.strip_prefix('*') {
        Some(target) => (true, target),
        None => (false, type_name),
    };
    let mut shape = parse_type(type_name, types)?;
    let mut field = Field {
        shape: shape.clone(),
        tag,
        pointer,
        always: false,
        retain_keys: false,
        default: None,
    };
    for word in words {
        match word.split_once('=') {
            None if word == "always" => field.always = true,
            None if word == "retain" => field.retain_keys = true,
            Some(("default", json)) => field.default = Some(serde_json::from_str(json).ok()?),
            _ => refine(Arc::make_mut(&mut shape), word)?,
        }
    }
    field.shape = shape;
    Some((name.to_owned(), field))
}

fn parse_type(name: &str, types: &Types) -> Option<Arc<Shape>> {
    if let Some(item) = name.strip_prefix("[]") {
        return Some(Arc::new(Shape::List(List {
            item: parse_type(item, types)?,
            kind: ListKind::Atomic,
            patch: ListPatch::Replace,
        })));
    }
    if let Some(value) = name.strip_prefix("{}") {
        return Some(Arc::new(Shape::Map(Map {
            value: parse_type(value, types)?,
            atomic: false,
        })));
    }
    let scalar = match name {
        "any" => return Some(Arc::new(Shape::Any)),
        "string" => Scalar::String,
        "bool" => Scalar::Bool,
        "int32" => Scalar::Int32,
        "int64" => Scalar::Int64,
        "float" => Scalar::Float,
        "bytes" => Scalar::Bytes,
        "time" => Scalar::Time,
        "microtime" => Scalar::MicroTime,
        "duration" => Scalar::Duration,
        "quantity" => Scalar::Quantity,
        "intorstring" => Scalar::IntOrString,
        "raw" => Scalar::Raw,
        named => return types.get(named).cloned(),
    };
    Some(Arc::new(Shape::Scalar(scalar)))
}

/// How a list or a map merges, from a word in the table.
fn refine(shape: &mut Shape, word: &str) -> Option<()> {
    match (shape, word.split_once('=')) {
        (Shape::Map(map), None) if word == "atomic" => map.atomic = true,
        (Shape::List(list), None) if word == "set" => list.kind = ListKind::Set,
        (Shape::List(list), None) if word == "merge" => list.patch = ListPatch::Merge,
        (Shape::List(list), Some(("map", keys))) => {
            list.kind = ListKind::Map(keys.split(',').map(str::to_owned).collect());
        }
        (Shape::List(list), Some(("merge", key))) => {
            list.patch = ListPatch::MergeBy(key.to_owned());
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(shape: &Shape) -> &Object {
        match shape {
            Shape::Object(object) => object,
            other => panic!("not an object: {other:?}"),
        }
    }

    fn list(shape: &Shape) -> &List {
        match shape {
            Shape::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }

    fn field<'a>(shape: &'a Shape, path: &str) -> &'a Field {
        let (first, rest) = match path.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        let field = &object(shape).fields[first];
        let inner = match &*field.shape {
            Shape::List(list) => &*list.item,
            other => other,
        };
        rest.map_or(field, |rest| self::field(inner, rest))
    }

    /// Checks that every list key is a field of the items, and every field has a name. Returns the
    /// number of fields.
    fn walk(shape: &Shape) -> usize {
        match shape {
            Shape::Any | Shape::Scalar(_) => 0,
            Shape::Map(map) => walk(&map.value),
            Shape::List(list) => {
                if let ListKind::Map(keys) = &list.kind {
                    for key in keys {
                        assert!(object(&list.item).fields.contains_key(key), "{key}");
                    }
                }
                if let ListPatch::MergeBy(key) = &list.patch {
                    assert!(object(&list.item).fields.contains_key(key), "{key}");
                }
                walk(&list.item)
            }
            Shape::Object(object) => {
                let fields = object.fields.iter();
                fields
                    .map(|(name, field)| {
                        assert!(!name.is_empty());
                        1 + walk(&field.shape)
                    })
                    .sum()
            }
        }
    }

    #[test]
    fn the_whole_table_is_read_and_every_kind_has_fields() {
        let table = parse(include_str!("field_table.txt")).unwrap_or_else(|line| panic!("{line}"));
        let shapes: Vec<_> = table.kinds.values().flatten().collect();
        assert_eq!(shapes.len(), 33);
        for (_, shape) in shapes {
            assert!(walk(shape) > 5);
        }
    }

    #[test]
    fn every_kind_is_an_object_with_metadata_at_number_one() {
        for (group, kind) in [
            ("", "Pod"),
            ("", "Node"),
            ("apps", "Deployment"),
            ("coordination.k8s.io", "Lease"),
        ] {
            let shape = builtin(group, "v1", kind).unwrap();
            assert_eq!(field(&shape, "metadata").tag, [1], "{kind}");
            assert_eq!(field(&shape, "apiVersion").tag, [] as [u32; 0], "{kind}");
        }
    }

    #[test]
    fn a_kind_is_found_in_its_own_group_and_version_only() {
        assert!(builtin("apps", "v1", "Deployment").is_some());
        assert!(builtin("", "v1", "Deployment").is_none());
        assert!(builtin("apps", "v1beta1", "Deployment").is_none());
        assert_ne!(builtin("", "v1", "Event"), builtin("events.k8s.io", "v1", "Event"));
    }

    #[test]
    fn delete_options_are_known_in_every_group() {
        let core = builtin("", "v1", "DeleteOptions");
        assert!(core.is_some());
        assert_eq!(builtin("apps", "v1", "DeleteOptions"), core);
    }

    #[test]
    fn what_json_inlines_has_a_path_of_numbers() {
        let pod = builtin("", "v1", "Pod").unwrap();
        let empty_dir = field(&pod, "spec.volumes.emptyDir");
        assert_eq!(empty_dir.tag, [2, 2]);
        assert!(empty_dir.pointer);
    }

    #[test]
    fn lists_know_how_they_merge() {
        let pod = builtin("", "v1", "Pod").unwrap();
        let volumes = field(&pod, "spec.volumes");
        assert!(volumes.retain_keys);
        assert_eq!(list(&volumes.shape).patch, ListPatch::MergeBy("name".into()));
        let ports = field(&pod, "spec.containers.ports");
        assert_eq!(
            list(&ports.shape).kind,
            ListKind::Map(vec!["containerPort".into(), "protocol".into()])
        );
        let protocol = field(&pod, "spec.containers.ports.protocol");
        assert_eq!(protocol.default, Some(json!("TCP")));
        let finalizers = field(&pod, "metadata.finalizers");
        assert_eq!(list(&finalizers.shape).kind, ListKind::Set);
        assert_eq!(list(&finalizers.shape).patch, ListPatch::Merge);
    }

    #[test]
    fn what_has_one_owner_says_so() {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        assert!(object(&field(&deployment, "spec.selector").shape).atomic);
        let service = builtin("", "v1", "Service").unwrap();
        let Shape::Map(selector) = &*field(&service, "spec.selector").shape else {
            panic!("selector is a map");
        };
        assert!(selector.atomic);
    }

    #[test]
    fn a_line_that_can_not_be_read_is_named() {
        for line in [
            "  a",
            "  a x string",
            "  a 1 nothing",
            "  a 1 string set",
            "  a 1 string default={",
        ] {
            let text: &'static str = format!("t.T\n{line}").leak();
            assert_eq!(parse(text).err(), Some(line));
        }
    }
}
