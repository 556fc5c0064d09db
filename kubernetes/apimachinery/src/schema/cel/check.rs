//! What can be said of a rule before it runs: it parses, its names exist, its result has the right type.
//!
//! Types are followed as far as the schema gives them and count as unknown after that, so nothing right is refused; kube-apiserver's full
//! type check refuses more.

use kube_cel::cel::ExecutionError;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use kube_cel::cel::parser::{Expression, Parser};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::evaluate::FUNCTIONS;
use super::value::escape;
use crate::schema::format::Known;
use crate::schema::subschema::Subschema;
use crate::schema::types::Type;

/// Of metadata, rules may use these.
pub(super) const METADATA: [&str; 2] = ["name", "generateName"];

/// A rule's surroundings.
#[derive(Debug)]
pub(super) struct Rule<'n> {
    pub(super) node: &'n Subschema,
    pub(super) resource: bool,
    pub(super) optional_old: bool,
}

#[derive(Clone, Debug)]
enum Kind<'n> {
    Unknown,
    Bool,
    Int,
    Uint,
    Double,
    String,
    /// Known not to be a bool or a string.
    Other,
    List(Box<Kind<'n>>),
    Map(Box<Kind<'n>>),
    Object(&'n Subschema, bool),
    Metadata,
}

impl<'n> Kind<'n> {
    fn of(node: &'n Subschema, resource: bool) -> Self {
        match node.kind {
            Type::Object => match &node.additional {
                Some(Some(values)) => Self::Map(Box::new(Self::of(values, values.embedded))),
                Some(None) => Self::Unknown,
                None if node.preserve && node.properties.is_empty() && !resource => Self::Unknown,
                None => Self::Object(node, resource),
            },
            Type::Array => {
                let item = node
                    .items
                    .as_deref()
                    .map_or(Self::Unknown, |item| Self::of(item, item.embedded));
                Self::List(Box::new(item))
            }
            Type::String => match node.limits.format.as_ref().map(|format| format.kind) {
                Some(Known::Date | Known::DateTime | Known::Duration | Known::Byte) => Self::Other,
                _ => Self::String,
            },
            Type::Integer => Self::Int,
            Type::Number => Self::Double,
            Type::Boolean => Self::Bool,
            Type::IntOrString | Type::Any => Self::Unknown,
        }
    }

    /// The name of a simple type in messages.
    fn simple(&self) -> Option<&'static str> {
        Some(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            _ => return None,
        })
    }

    fn number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    fn field(&self, name: &str) -> Option<Self> {
        match self {
            Self::Object(node, resource) => {
                if *resource {
                    match name {
                        "metadata" => return Some(Self::Metadata),
                        "apiVersion" | "kind" => return Some(Self::String),
                        _ => {}
                    }
                }
                let called = |property: &&String| escape(property).is_some_and(|escaped| escaped == name);
                let property = node.properties.keys().find(called)?;
                let property = node.properties.get(property)?;
                Some(Self::of(property, property.embedded))
            }
            Self::Metadata => METADATA.contains(&name).then_some(Self::String),
            Self::Map(values) => Some(values.as_ref().clone()),
            _ => Some(Self::Unknown),
        }
    }
}

/// What is wrong, and the text in the rule that shows where.
struct Problem {
    what: String,
    at: String,
}

type Checked<'n> = Result<Kind<'n>, Problem>;

impl<'n> Rule<'n> {
    pub(super) fn predicate(&self, source: &str) -> Result<Expression, String> {
        let (expression, kind) = self.check(source).map_err(|why| format!("compilation failed: {why}"))?;
        match kind {
            Kind::Bool | Kind::Unknown => Ok(expression),
            _ => Err("cel expression must evaluate to a bool".to_owned()),
        }
    }

    pub(super) fn message(&self, source: &str) -> Result<Expression, String> {
        let failed = |why| format!("messageExpression compilation failed: {why}");
        let (expression, kind) = self.check(source).map_err(failed)?;
        match kind {
            Kind::String | Kind::Unknown => Ok(expression),
            _ => Err("messageExpression must evaluate to a string".to_owned()),
        }
    }

    fn check(&self, source: &str) -> Result<(Expression, Kind<'n>), String> {
        // The parser panics on a few kinds of nonsense.
        let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(source));
        let mut expression = match parsed {
            Ok(Ok(expression)) => expression,
            Ok(Err(errors)) => return Err(errors.to_string()),
            Err(_) => return Err("ERROR: <input>:1:1: Syntax error".to_owned()),
        };
        index_optionally(&mut expression);
        let this = Kind::of(self.node, self.resource);
        let old = if self.optional_old { Kind::Unknown } else { this.clone() };
        let mut names = vec![("self".to_owned(), this), ("oldSelf".to_owned(), old)];
        let kind = kind_of(&expression, &mut names).map_err(|problem| problem.shown(source))?;
        Ok((expression, kind))
    }
}

/// `a.?b` as `a[?'b']`: they mean the same, but the interpreter takes a missing field for an error in the first.
fn index_optionally(expression: &mut Expression) {
    match &mut expression.expr {
        Expr::Call(call) => {
            if call.func_name == operators::OPT_SELECT {
                call.func_name = operators::OPT_INDEX.to_owned();
            }
            call.target.iter_mut().for_each(|target| index_optionally(target));
            call.args.iter_mut().for_each(index_optionally);
        }
        Expr::Comprehension(made) => {
            index_optionally(&mut made.iter_range);
            index_optionally(&mut made.accu_init);
            index_optionally(&mut made.loop_step);
        }
        Expr::Select(select) => index_optionally(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(index_optionally),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    index_optionally(&mut entry.key);
                    index_optionally(&mut entry.value);
                }
            }
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
    }
}

impl Problem {
    fn undeclared(name: &str, at: String) -> Self {
        Self {
            what: format!("undeclared reference to '{name}' (in container '')"),
            at,
        }
    }

    /// With line, column and a mark under the place.
    fn shown(&self, source: &str) -> String {
        let offset = find_word(source, &self.at);
        let before = &source[..offset];
        let line = before.matches('\n').count();
        let column = before.rsplit('\n').next().map_or(0, |text| text.chars().count());
        let text = source.lines().nth(line).unwrap_or_default();
        let dots = ".".repeat(column);
        format!(
            "ERROR: <input>:{}:{}: {}\n | {text}\n | {dots}^",
            line + 1,
            column + 1,
            self.what
        )
    }
}

/// Where `text` stands in `source` as a whole word; its start where it does not.
fn find_word(source: &str, text: &str) -> usize {
    let inner = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |at: &usize| {
        let before = source[..*at].chars().next_back();
        let after = source[*at + text.len()..].chars().next();
        let cut_before = text.starts_with(inner) && before.is_some_and(inner);
        let cut_after = text.ends_with(inner) && after.is_some_and(inner);
        !cut_before && !cut_after
    };
    let found = source.match_indices(text).map(|(at, _)| at).find(whole);
    found.map_or(0, |at| if text.ends_with('(') { at + text.len() - 1 } else { at })
}

type Names<'n> = Vec<(String, Kind<'n>)>;

fn kind_of<'n>(expression: &Expression, names: &mut Names<'n>) -> Checked<'n> {
    match &expression.expr {
        Expr::Literal(literal) => Ok(match literal {
            LiteralValue::Boolean(_) => Kind::Bool,
            LiteralValue::Int(_) => Kind::Int,
            LiteralValue::UInt(_) => Kind::Uint,
            LiteralValue::Double(_) => Kind::Double,
            LiteralValue::String(_) => Kind::String,
            LiteralValue::Bytes(_) => Kind::Other,
            LiteralValue::Null => Kind::Unknown,
        }),
        Expr::Ident(name) => {
            let known = names.iter().rev().find(|(known, _)| known == name);
            match known {
                Some((_, kind)) => Ok(kind.clone()),
                None => Err(Problem::undeclared(name, name.clone())),
            }
        }
        Expr::Select(select) => {
            let operand = kind_of(&select.operand, names)?;
            let at = if select.test {
                "has(".to_owned()
            } else {
                format!(".{}", select.field)
            };
            if let Some(simple) = operand.simple() {
                let what = format!("type '{simple}' does not support field selection");
                return Err(Problem { what, at });
            }
            match operand.field(&select.field) {
                Some(_) if select.test => Ok(Kind::Bool),
                Some(field) => Ok(field),
                None => Err(Problem {
                    what: format!("undefined field '{}'", select.field),
                    at,
                }),
            }
        }
        Expr::List(list) => {
            for element in &list.elements {
                kind_of(element, names)?;
            }
            Ok(Kind::List(Box::new(Kind::Unknown)))
        }
        Expr::Map(map) => {
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    kind_of(&entry.key, names)?;
                    kind_of(&entry.value, names)?;
                }
            }
            Ok(Kind::Map(Box::new(Kind::Unknown)))
        }
        Expr::Call(call) => kind_of_call(call, names),
        Expr::Comprehension(comprehension) => kind_of_comprehension(comprehension, names),
        Expr::Struct(made) => Err(Problem::undeclared(&made.type_name, made.type_name.clone())),
        Expr::Unspecified => Ok(Kind::Unknown),
    }
}

fn kind_of_comprehension<'n>(made: &ComprehensionExpr, names: &mut Names<'n>) -> Checked<'n> {
    let item = match kind_of(&made.iter_range, names)? {
        Kind::List(item) => *item,
        Kind::Map(_) => Kind::String,
        Kind::Unknown | Kind::Other => Kind::Unknown,
        other => {
            let name = other.simple().unwrap_or("object");
            let what = format!(
                "expression of type '{name}' cannot be range of a comprehension (must be list, map, or dynamic)"
            );
            return Err(Problem {
                what,
                at: String::new(),
            });
        }
    };
    let result = kind_of(&made.accu_init, names)?;
    let outside = names.len();
    names.push((made.iter_var.clone(), item));
    names.extend(made.iter_var2.clone().map(|name| (name, Kind::Unknown)));
    names.push((made.accu_var.clone(), result));
    let checked = kind_of(&made.loop_cond, names)
        .and_then(|_| kind_of(&made.loop_step, names))
        .and_then(|_| kind_of(&made.result, names));
    names.truncate(outside);
    checked
}

fn kind_of_call<'n>(call: &CallExpr, names: &mut Names<'n>) -> Checked<'n> {
    let name = call.func_name.as_str();
    let mut kinds = Vec::with_capacity(call.args.len());
    for argument in &call.args {
        kinds.push(kind_of(argument, names)?);
    }
    if name.contains('_') || name.starts_with('@') {
        return kind_of_operator(name, &kinds);
    }
    let mut declared = is_declared(name);
    if let Some(target) = &call.target {
        let qualified = match &target.expr {
            Expr::Ident(prefix) => Some(format!("{prefix}.{name}")).filter(|full| is_declared(full)),
            _ => None,
        };
        if qualified.is_some() {
            declared = true;
        } else {
            kind_of(target, names)?;
        }
    }
    if !declared {
        return Err(Problem::undeclared(name, format!("{name}(")));
    }
    Ok(match name {
        "size" | "int" | "indexOf" | "prefixLength" | "family" => Kind::Int,
        "string" | "lowerAscii" | "upperAscii" | "format" | "join" | "replace" | "trim" => Kind::String,
        "double" => Kind::Double,
        "contains" | "startsWith" | "endsWith" | "matches" | "isIP" | "isCIDR" | "isURL" | "isQuantity"
        | "hasValue" | "isSorted" => Kind::Bool,
        "ip" | "cidr" | "url" | "quantity" | "semver" | "timestamp" | "duration" | "split" => Kind::Other,
        _ => Kind::Unknown,
    })
}

fn kind_of_operator<'n>(name: &str, kinds: &[Kind<'n>]) -> Checked<'n> {
    let mismatch = |left: &str, right: &str| Problem {
        what: format!("found no matching overload for '{name}' applied to '({left}, {right})'"),
        at: name.trim_matches('_').to_owned(),
    };
    match (name, kinds) {
        (operators::EQUALS | operators::NOT_EQUALS, [left, right]) => match (left.simple(), right.simple()) {
            (Some(a), Some(b)) if a != b => Err(mismatch(a, b)),
            _ => Ok(Kind::Bool),
        },
        // Numbers of different types have an order.
        (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS, [left, right]) => {
            match (left.simple(), right.simple()) {
                (Some(a), Some(b)) if a != b && !(left.number() && right.number()) => Err(mismatch(a, b)),
                _ => Ok(Kind::Bool),
            }
        }
        (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, operands) => {
            match operands
                .iter()
                .find_map(|kind| kind.simple().filter(|name| *name != "bool"))
            {
                Some(other) => Err(Problem {
                    what: format!("expected type 'bool' but found '{other}'"),
                    at: name.trim_matches('_').to_owned(),
                }),
                None => Ok(Kind::Bool),
            }
        }
        (operators::IN | operators::NOT_STRICTLY_FALSE, _) => Ok(Kind::Bool),
        (
            operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
            [left, right],
        ) => match (left.simple(), right.simple()) {
            (Some(a), Some(b)) if a == b => Ok(left.clone()),
            (Some(a), Some(b)) => Err(mismatch(a, b)),
            _ => Ok(Kind::Unknown),
        },
        (operators::CONDITIONAL, [_, yes, no]) => Ok(if yes.simple() == no.simple() && yes.simple().is_some() {
            yes.clone()
        } else {
            Kind::Unknown
        }),
        (operators::INDEX, [Kind::List(item) | Kind::Map(item), _]) => Ok(item.as_ref().clone()),
        _ => Ok(Kind::Unknown),
    }
}

/// Whether there is a function of this name. The registry does not tell, but calling one that is missing does.
fn is_declared(name: &str) -> bool {
    let call = Expression {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args: Vec::new(),
        }),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| kube_cel::cel::Value::resolve(&call, &FUNCTIONS)));
    !matches!(outcome, Ok(Err(ExecutionError::UndeclaredReference(_))))
}
