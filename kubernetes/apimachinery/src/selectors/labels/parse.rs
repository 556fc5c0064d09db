//! Parses a label selector from a query. Errors have the words of kube-apiserver.

use std::collections::BTreeSet;

use super::requirement::{Operator, Requirement, check_key};
use crate::status::Path;

pub fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut parser = Parser {
        tokens: scan(text),
        next: 0,
    };
    let mut requirements = Vec::new();
    loop {
        let token = parser.peek();
        match token.kind {
            Kind::End => return Ok(requirements),
            Kind::Word | Kind::Not => {}
            _ => return Err(token.unexpected("!, identifier, or 'end of string'")),
        }
        let requirement = parser.requirement();
        requirements
            .push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
        let token = parser.take();
        match (token.kind, parser.peek().kind) {
            (Kind::End, _) => return Ok(requirements),
            (Kind::Comma, Kind::Word | Kind::Not) => {}
            (Kind::Comma, _) => return Err(parser.peek().unexpected("identifier after ','")),
            _ => return Err(token.unexpected("',' or 'end of string'")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Operator(Operator),
    Not,
    Comma,
    Open,
    Close,
    End,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
}

impl Token<'_> {
    fn unexpected(&self, expected: &str) -> String {
        format!("found '{}', expected: {expected}", self.text)
    }
}

/// Longest first: `==` is one token.
const SYMBOLS: &[(&str, Kind)] = &[
    ("==", Kind::Operator(Operator::Equals)),
    ("!=", Kind::Operator(Operator::NotEquals)),
    ("=", Kind::Operator(Operator::Equals)),
    (">", Kind::Operator(Operator::GreaterThan)),
    ("<", Kind::Operator(Operator::LessThan)),
    ("!", Kind::Not),
    (",", Kind::Comma),
    ("(", Kind::Open),
    (")", Kind::Close),
];

fn scan(text: &str) -> Vec<Token<'_>> {
    let blank = [' ', '\t', '\r', '\n'];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(blank);
    while !rest.is_empty() {
        let (kind, length) = SYMBOLS
            .iter()
            .find(|(symbol, _)| rest.starts_with(symbol))
            .map(|(symbol, kind)| (*kind, symbol.len()))
            .unwrap_or_else(|| {
                let ends = |c: char| blank.contains(&c) || "=!(),><".contains(c);
                (Kind::Word, rest.find(ends).unwrap_or(rest.len()))
            });
        let (text, after) = rest.split_at(length);
        tokens.push(Token { kind, text });
        rest = after.trim_start_matches(blank);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token {
            kind: Kind::End,
            text: "",
        })
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek().kind == Kind::Not;
        if negated {
            self.take();
        }
        let key = self.take();
        if key.kind != Kind::Word {
            return Err(key.unexpected("identifier"));
        }
        if let Some(error) = check_key(key.text, Path::root()) {
            return Err(error.to_string());
        }
        let operator = match self.peek().kind {
            _ if negated => Operator::DoesNotExist,
            Kind::End | Kind::Comma => Operator::Exists,
            _ => self.operator()?,
        };
        let values = match operator {
            Operator::Exists | Operator::DoesNotExist => BTreeSet::new(),
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.value()?]),
        };
        Requirement::new(key.text, operator, values)
    }

    /// `in` and `notin` are operators only here: anywhere else they are words.
    fn operator(&mut self) -> Result<Operator, String> {
        let token = self.take();
        match (token.kind, token.text) {
            (Kind::Operator(operator), _) => Ok(operator),
            (Kind::Word, "in") => Ok(Operator::In),
            (Kind::Word, "notin") => Ok(Operator::NotIn),
            _ => Err(token.unexpected("in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        let token = self.peek();
        match token.kind {
            Kind::End | Kind::Comma => Ok(String::new()),
            Kind::Word => Ok(self.take().text.to_owned()),
            _ => Err(token.unexpected("identifier")),
        }
    }

    /// `(a,b)`. No text before a comma or parenthesis means the empty value.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        let open = self.take();
        if open.kind != Kind::Open {
            return Err(format!("found '{}' expected: '('", open.text));
        }
        let mut values = BTreeSet::new();
        loop {
            let token = self.peek();
            match token.kind {
                Kind::Word => values.insert(self.take().text.to_owned()),
                Kind::Comma | Kind::Close => values.insert(String::new()),
                _ if values.is_empty() => return Err(token.unexpected("',', ')' or identifier")),
                _ => return Err(token.unexpected("',', or identifier")),
            };
            let after = self.take();
            match after.kind {
                Kind::Close => return Ok(values),
                Kind::Comma => {}
                _ => return Err(after.unexpected("',' or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_said_in_the_servers_words() {
        for (selector, words) in [
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("a,", "found '', expected: identifier after ','"),
            (
                "a b",
                "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            ),
            ("a in x", "unable to parse requirement: found 'x' expected: '('"),
            ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
            (
                "a in (x,!)",
                "unable to parse requirement: found '!', expected: ',', or identifier",
            ),
            (
                "a in (!x)",
                "unable to parse requirement: found '!', expected: ',', ')' or identifier",
            ),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            (
                "a>b",
                "unable to parse requirement: values[0]: Invalid value: \"b\": for \
                 'Gt', 'Lt' operators, the value must be an integer",
            ),
        ] {
            assert_eq!(requirements(selector).unwrap_err(), words, "{selector}");
        }
        let error = requirements("-a=b").unwrap_err();
        assert!(
            error.starts_with(
                "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must"
            ),
            "{error}"
        );
        let error = requirements("a=-b").unwrap_err();
        assert!(
            error.starts_with(
                "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid \
                 label must"
            ),
            "{error}"
        );
    }
}
