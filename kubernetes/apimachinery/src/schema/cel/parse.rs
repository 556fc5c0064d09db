//! Checks a rule before it runs: it parses, and the names in it exist. Types are only checked when
//! it runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kube_cel::cel::ExecutionError;
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, operators};
use kube_cel::cel::parser::{Expression, Parser};

use super::evaluate::FUNCTIONS;

/// An expression over `self` and `oldSelf`, or why there is none.
pub(super) fn parse(source: &str) -> Result<Expression, String> {
    // The parser panics on a few kinds of nonsense.
    let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(source));
    let mut expression = match parsed {
        Ok(Ok(expression)) => expression,
        Ok(Err(errors)) => return Err(errors.to_string()),
        Err(_) => return Err("ERROR: <input>:1:1: Syntax error".to_owned()),
    };
    index_optionally(&mut expression);
    let mut names = vec!["self".to_owned(), "oldSelf".to_owned()];
    check_names(&expression, &mut names)?;
    Ok(expression)
}

/// Rewrites `a.?b` to `a[?'b']`. They mean the same, but the interpreter reports a missing field as
/// an error in the first form.
fn index_optionally(expression: &mut Expression) {
    if let Expr::Call(call) = &mut expression.expr
        && call.func_name == operators::OPT_SELECT
    {
        call.func_name = operators::OPT_INDEX.to_owned();
    }
    match &mut expression.expr {
        Expr::Call(call) => {
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

/// `names` are the variables in scope.
fn check_names(expression: &Expression, names: &mut Vec<String>) -> Result<(), String> {
    match &expression.expr {
        Expr::Ident(name) if names.contains(name) => Ok(()),
        Expr::Ident(name) => Err(undeclared(name)),
        Expr::Select(select) => check_names(&select.operand, names),
        Expr::List(list) => list.elements.iter().try_for_each(|item| check_names(item, names)),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                check_names(&entry.key, names)?;
                check_names(&entry.value, names)
            }
            EntryExpr::StructField(field) => check_names(&field.value, names),
        }),
        Expr::Call(call) => check_call(call, names),
        Expr::Comprehension(made) => {
            check_names(&made.iter_range, names)?;
            check_names(&made.accu_init, names)?;
            let outside = names.len();
            names.extend([made.iter_var.clone(), made.accu_var.clone()]);
            names.extend(made.iter_var2.clone());
            let checked = check_names(&made.loop_cond, names)
                .and_then(|()| check_names(&made.loop_step, names))
                .and_then(|()| check_names(&made.result, names));
            names.truncate(outside);
            checked
        }
        Expr::Struct(made) => Err(undeclared(&made.type_name)),
        Expr::Literal(_) | Expr::Unspecified => Ok(()),
    }
}

fn check_call(call: &CallExpr, names: &mut Vec<String>) -> Result<(), String> {
    let name = call.func_name.as_str();
    call.args.iter().try_for_each(|argument| check_names(argument, names))?;
    if let Some(target) = &call.target {
        // `a.b()` is a method of `a`, or a function of that whole name.
        let is_function = match &target.expr {
            Expr::Ident(prefix) => is_declared(&format!("{prefix}.{name}")),
            _ => false,
        };
        if is_function {
            return Ok(());
        }
        check_names(target, names)?;
    }
    let is_operator = name.contains('_') || name.starts_with('@');
    if is_operator || is_declared(name) {
        Ok(())
    } else {
        Err(undeclared(name))
    }
}

fn undeclared(name: &str) -> String {
    format!("ERROR: undeclared reference to '{name}'")
}

/// Whether a function of this name exists. The registry has no look-up, but a call of a missing
/// function fails in a known way.
fn is_declared(name: &str) -> bool {
    let call = Expression {
        id: 0,
        expr: Expr::Call(CallExpr {
            func_name: name.to_owned(),
            target: None,
            args: Vec::new(),
        }),
    };
    let call = || kube_cel::cel::Value::resolve(&call, &FUNCTIONS);
    !matches!(
        catch_unwind(AssertUnwindSafe(call)),
        Ok(Err(ExecutionError::UndeclaredReference(_)))
    )
}
