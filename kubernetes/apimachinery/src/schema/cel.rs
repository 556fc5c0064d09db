//! `x-kubernetes-validations`: compiled with the schema, run on every write.
//!
//! `kube-cel` has the functions. The walk is implemented here, because it must follow
//! kube-apiserver: which old value belongs to which new one, which invalid values an update may
//! keep, number types, and the escaping of field names.

mod evaluate;
mod matches;
mod parse;
mod value;

use serde_json::{Map, Value};

use super::rule::Rule;
use super::subschema::Subschema;
use super::types::{ListType, Type};
use crate::status::{FieldError, FieldProblem, Path};
use crate::trail::Trail;
use evaluate::Variables;

/// `uncorrelated` is the enclosing list whose items have no identity, so that nothing in it has a
/// known old value.
pub(super) fn compile(
    schema: &Map<String, Value>,
    node: &Subschema,
    uncorrelated: Option<&Path>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) -> Vec<Rule> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    let rules = rules.into_iter().flatten().enumerate();
    rules
        .filter_map(|(index, rule)| {
            let path = path.child("x-kubernetes-validations").index(index);
            compile_rule(rule, node, uncorrelated, &path)
                .map_err(|error| errors.push(error))
                .ok()
        })
        .collect()
}

fn compile_rule(
    rule: &Value,
    node: &Subschema,
    uncorrelated: Option<&Path>,
    path: &Path,
) -> Result<Rule, FieldError> {
    let text = |name: &str| rule[name].as_str().unwrap_or_default();
    let (source, message) = (text("rule").trim(), text("message").trim());
    if source.is_empty() {
        return Err(FieldError::required(path.child("rule"), "rule is not specified"));
    }
    let invalid = |name: &str, detail: String| {
        FieldError::invalid(path.child(name), rule[name].clone(), detail)
    };
    let field = match text("fieldPath") {
        "" => None,
        given => {
            let field = field_path(node, given);
            Some(field.ok_or_else(|| invalid("fieldPath", "must be a valid path".to_owned()))?)
        }
    };
    let expression = parse::parse(source)
        .map_err(|why| invalid("rule", format!("compilation failed: {why}")))?;
    let message_expression = match text("messageExpression") {
        "" => None,
        source => Some(parse::parse(source).map_err(|why| {
            let detail = format!("messageExpression compilation failed: {why}");
            invalid("messageExpression", detail)
        })?),
    };
    let uses_old = expression.references().has_variable("oldSelf");
    if let Some(list) = uncorrelated.filter(|_| uses_old) {
        let detail = format!(
            "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
        );
        return Err(invalid("rule", detail));
    }
    Ok(Rule {
        name: if message.is_empty() { source } else { message }.to_owned(),
        message: (!message.is_empty()).then(|| message.to_owned()),
        message_expression,
        expression,
        problem: reason(rule, path)?,
        field,
        uses_old,
        optional_old: rule["optionalOldSelf"] == true,
    })
}

fn reason(rule: &Value, path: &Path) -> Result<FieldProblem, FieldError> {
    match rule["reason"].as_str() {
        None | Some("FieldValueInvalid") => Ok(FieldProblem::Invalid),
        Some("FieldValueForbidden") => Ok(FieldProblem::Forbidden),
        Some("FieldValueRequired") => Ok(FieldProblem::Required),
        Some("FieldValueDuplicate") => Ok(FieldProblem::Duplicate),
        Some(_) => Err(FieldError::not_supported(
            path.child("reason"),
            &rule["reason"],
            &[
                "FieldValueDuplicate",
                "FieldValueForbidden",
                "FieldValueInvalid",
                "FieldValueRequired",
            ],
        )),
    }
}

/// `.a.b['c']` as `a.b[c]`, if the schema has every step.
fn field_path(node: &Subschema, text: &str) -> Option<String> {
    let mut node = node;
    let mut path = Path::root();
    let mut rest = text;
    while !rest.is_empty() {
        let name = if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            rest = after;
            name
        } else {
            let after = rest.strip_prefix('.')?;
            let (name, after) = after.split_at(after.find(['.', '[']).unwrap_or(after.len()));
            rest = after;
            name
        };
        if node.properties.is_empty() {
            node = node.additional.as_ref()?.as_deref()?;
            path = path.key(name);
        } else {
            node = node.properties.get(name)?;
            path = path.child(name);
        }
    }
    Some(path.to_string())
}

pub(super) fn validate(root: &Subschema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let change = Change {
        same: old.map(|old| (new, old)),
        enclosing: None,
    };
    walk(root, new, old, change, &Trail::Root, &mut errors);
    errors
}

/// Tells whether an update left this part unchanged: the part and its old value or, if that is
/// unknown, the nearest enclosing part with one.
#[derive(Clone, Copy)]
struct Change<'v> {
    same: Option<(&'v Value, &'v Value)>,
    enclosing: Option<(&'v Value, &'v Value)>,
}

impl<'v> Change<'v> {
    fn below(self, new: &'v Value, old: Option<&'v Value>) -> Self {
        match self.same {
            None => self,
            enclosing => Self {
                same: old.map(|old| (new, old)),
                enclosing,
            },
        }
    }

    fn is_none(self) -> bool {
        self.same.or(self.enclosing).is_some_and(|(new, old)| new == old)
    }
}

fn walk<'v>(
    node: &Subschema,
    value: &'v Value,
    old: Option<&'v Value>,
    change: Change<'v>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) {
    // Rules do not run on null. A rule about null belongs to the enclosing part.
    if !node.below.rules || value.is_null() {
        return;
    }
    let old = old.filter(|old| !old.is_null());
    run(node, value, old, change, at, errors);
    match value {
        Value::Object(fields) => {
            for (name, child) in fields {
                let before = old.and_then(|old| old.get(name));
                if let Some(property) = node.properties.get(name) {
                    let hidden = at.is_root() && (name == "apiVersion" || name == "kind");
                    let below = if hidden {
                        Change {
                            same: None,
                            enclosing: None,
                        }
                    } else {
                        change.below(child, before)
                    };
                    walk(property, child, before, below, &Trail::Field(at, name), errors);
                } else if let Some(Some(values)) = &node.additional {
                    let below = change.below(child, before);
                    walk(values, child, before, below, &Trail::Key(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &node.items else {
                return;
            };
            let correlated = matches!(node.list, ListType::Map(_));
            for (index, item) in items.iter().enumerate() {
                let before = node.list.find(old.filter(|_| correlated), item);
                let below = change.below(item, before);
                walk(schema, item, before, below, &Trail::Index(at, index), errors);
            }
        }
        _ => {}
    }
}

fn run(
    node: &Subschema,
    value: &Value,
    old: Option<&Value>,
    change: Change<'_>,
    at: &Trail<'_>,
    errors: &mut Vec<FieldError>,
) {
    if node.rules.is_empty() {
        return;
    }
    let resource = at.is_root() || node.embedded;
    let needs_old = node.rules.iter().any(|rule| rule.uses_old);
    let mut variables = Variables::new(node, resource, value, old.filter(|_| needs_old));
    for rule in &node.rules {
        // A transition rule needs an old value.
        if rule.uses_old && old.is_none() && !rule.optional_old {
            continue;
        }
        match variables.predicate(&rule.expression, rule.optional_old) {
            Ok(true) => {}
            Ok(false) if !rule.uses_old && change.is_none() => {}
            Ok(false) => errors.push(failure(rule, node, value, &mut variables, at)),
            Err(why) => {
                let kind = Value::from(node.kind.name());
                errors.push(FieldError::invalid(at.path(), kind, why.about(&rule.name)));
            }
        }
    }
}

fn failure(
    rule: &Rule,
    node: &Subschema,
    value: &Value,
    variables: &mut Variables<'_>,
    at: &Trail<'_>,
) -> FieldError {
    let field = match &rule.field {
        Some(below) => at.path().child(below),
        None => at.path(),
    };
    // If the expression gives no usable message, the fixed one is used.
    let message = rule
        .message_expression
        .as_ref()
        .and_then(|expression| variables.message(expression, rule.optional_old))
        .or_else(|| rule.message.clone())
        .unwrap_or_else(|| format!("failed rule: {}", rule.name));
    let shown = (!matches!(node.kind, Type::Object | Type::Array)).then(|| value.clone());
    match rule.problem {
        FieldProblem::Forbidden => FieldError::forbidden(field, message),
        FieldProblem::Required => FieldError::required(field, message),
        FieldProblem::Duplicate => FieldError::new(rule.problem, field, shown, ""),
        problem => FieldError::new(problem, field, shown, message),
    }
}
