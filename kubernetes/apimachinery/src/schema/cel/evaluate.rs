//! Evaluates an expression with `self` and `oldSelf`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::types::CelOptional;
use kube_cel::cel::common::value::Val;
use kube_cel::cel::parser::Expression;
use kube_cel::cel::{Context, ExecutionError, Value as CelValue};
use serde_json::Value;

use super::matches::matches;
use super::value::convert;
use crate::schema::subschema::Subschema;

pub(super) static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| {
    let mut context = Context::default().with_all();
    context.add_function("isCIDR", |text: Arc<String>| is_cidr(&text));
    context.add_function("matches", matches);
    context
});

/// Stricter than the library's function: no leading zeroes, no IPv4-mapped IPv6 addresses.
fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_none() => 128,
        _ => return false,
    };
    let number: Option<u8> = length.parse().ok();
    number.is_some_and(|number| number <= most && number.to_string() == length)
}

/// A message longer than this is not shown.
const MAX_MESSAGE_LENGTH: usize = 5120;

/// Why an expression has no value.
#[derive(Debug)]
pub(super) struct EvaluateError(String);

impl EvaluateError {
    pub(super) fn about(&self, rule: &str) -> String {
        let Self(why) = self;
        if why == "no such overload" {
            format!(
                "'{why}': call arguments did not match a supported operator, function \
                 or macro signature for rule: {rule}"
            )
        } else {
            format!("{why} evaluating rule: {rule}")
        }
    }
}

/// The variables for the rules of one node.
pub(super) struct Variables<'v> {
    node: &'v Subschema,
    resource: bool,
    old: Option<&'v Value>,
    /// The scope for plain rules. `optional` is the scope for rules with `optionalOldSelf`, made on
    /// first use.
    plain: Context<'static>,
    optional: Option<Context<'static>>,
    value: &'v Value,
}

impl<'v> Variables<'v> {
    pub(super) fn new(
        node: &'v Subschema,
        resource: bool,
        value: &'v Value,
        old: Option<&'v Value>,
    ) -> Self {
        let mut variables: BTreeMap<String, Box<dyn Val>> = BTreeMap::new();
        variables.insert("self".to_owned(), convert(node, resource, value));
        if let Some(old) = old {
            variables.insert("oldSelf".to_owned(), convert(node, resource, old));
        }
        Self {
            node,
            resource,
            old,
            plain: scope(variables),
            optional: None,
            value,
        }
    }

    pub(super) fn predicate(
        &mut self,
        expression: &Expression,
        optional: bool,
    ) -> Result<bool, EvaluateError> {
        match self.resolve(expression, optional)? {
            CelValue::Bool(holds) => Ok(holds),
            _ => Err(EvaluateError("no such overload".to_owned())),
        }
    }

    /// The text of a `messageExpression`, if it is fit for a message.
    pub(super) fn message(&mut self, expression: &Expression, optional: bool) -> Option<String> {
        let CelValue::String(text) = self.resolve(expression, optional).ok()? else {
            return None;
        };
        let text = text.trim();
        let fits = !text.is_empty() && text.len() <= MAX_MESSAGE_LENGTH && !text.contains('\n');
        fits.then(|| text.to_owned())
    }

    fn resolve(
        &mut self,
        expression: &Expression,
        optional: bool,
    ) -> Result<CelValue, EvaluateError> {
        let context = if optional {
            self.optional.get_or_insert_with(|| {
                let old = self.old.map(|old| convert(self.node, self.resource, old));
                let this = convert(self.node, self.resource, self.value);
                let old: Box<dyn Val> = Box::new(CelOptional::from(old));
                scope(BTreeMap::from([("self".to_owned(), this), ("oldSelf".to_owned(), old)]))
            })
        } else {
            &self.plain
        };
        resolve(expression, context)
    }
}

fn scope(variables: BTreeMap<String, Box<dyn Val>>) -> Context<'static> {
    Context::Child {
        parent: &FUNCTIONS,
        variables,
        resolver: None,
    }
}

/// The interpreter panics on a few well-formed expressions. A panic becomes an ordinary error.
pub(super) fn resolve(
    expression: &Expression,
    context: &Context<'_>,
) -> Result<CelValue, EvaluateError> {
    catch_unwind(AssertUnwindSafe(|| CelValue::resolve(expression, context)))
        .unwrap_or_else(|_| Err(ExecutionError::NoSuchOverload))
        .map_err(|error| EvaluateError(message_of(&error)))
}

fn message_of(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        _ => "no such overload".to_owned(),
    }
}
