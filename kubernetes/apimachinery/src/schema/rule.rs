//! A compiled rule of `x-kubernetes-validations`.

use kube_cel::cel::parser::Expression;

use crate::status::FieldProblem;

#[derive(Debug)]
pub(super) struct Rule {
    /// The name of the rule in messages: its message, else its text.
    pub(super) name: String,
    pub(super) message: Option<String>,
    pub(super) message_expression: Option<Expression>,
    pub(super) expression: Expression,
    pub(super) problem: FieldProblem,
    /// The path below the node at which a failure is reported.
    pub(super) field: Option<String>,
    pub(super) uses_old: bool,
    pub(super) optional_old: bool,
}
