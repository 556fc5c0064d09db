//! Label selectors: `a=b,c in (d,e),!f` in a query, `matchLabels` and `matchExpressions` in an
//! object.

mod parse;
mod requirement;

pub use requirement::Requirement;

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use requirement::Operator;

/// Requirements that must all hold. Without requirements, everything is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    pub(super) requirements: Vec<Requirement>,
}

impl Labels {
    /// Whether labels, looked up by key, are selected.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements
            .iter()
            .all(|requirement| requirement.accepts(label(requirement.key())))
    }

    /// From a query: `a=b,c in (d,e),!f`.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self {
            requirements: parse::requirements(text)?,
        })
    }

    /// A selector that is part of an object, such as a deployment's. An empty one selects
    /// everything.
    pub fn of(selector: &LabelSelector) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector.match_labels.iter().flatten() {
            let values = BTreeSet::from([value.clone()]);
            requirements.push(Requirement::new(key, Operator::Equals, values)?);
        }
        for expression in selector.match_expressions.iter().flatten() {
            let operator = match expression.operator.as_str() {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(format!("{other:?} is not a valid label selector operator")),
            };
            let values = expression.values.iter().flatten().cloned().collect();
            requirements.push(Requirement::new(&expression.key, operator, values)?);
        }
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(Self { requirements })
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        Labels::parse(selector)
            .unwrap()
            .matches(|key| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value))
    }

    #[test]
    fn each_operator_selects_as_kubernetes_says() {
        let labels = [("a", "x"), ("n", "5"), ("empty", "")];
        for (selector, expected) in [
            ("", true),
            ("a=x", true),
            ("a==x", true),
            ("a = x , n = 5", true),
            ("a!=x", false),
            ("a!=y", true),
            ("b!=y", true),
            ("a in (x,y)", true),
            ("a in (y)", false),
            ("b in (y)", false),
            ("a notin (x)", false),
            ("b notin (x)", true),
            ("a", true),
            ("b", false),
            ("!a", false),
            ("!b", true),
            ("n>4", true),
            ("n<5", false),
            ("a>4", false),
            ("empty=", true),
            ("empty in (,z)", true),
            ("empty in ()", true),
            ("a=x,b", false),
            ("in in (in)", false),
        ] {
            assert_eq!(selects(selector, &labels), expected, "{selector}");
        }
    }

    #[test]
    fn a_selector_object_selects_by_labels_and_expressions_together() {
        let object = |value| serde_json::from_value::<LabelSelector>(value).unwrap();
        let labels = Labels::of(&object(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}, {"key": "x", "operator": "DoesNotExist"}],
        })))
        .unwrap();
        assert_eq!(labels.to_string(), "app=web,tier notin (db),!x");
        assert!(labels.matches(|key| (key == "app").then_some("web")));
        assert!(!labels.matches(|key| (key != "x").then_some("db")));
        assert!(Labels::of(&LabelSelector::default()).unwrap().matches(|_| None));
        let odd = object(json!({"matchExpressions": [{"key": "a", "operator": "Near"}]}));
        let none = object(json!({"matchExpressions": [{"key": "a", "operator": "In"}]}));
        assert_eq!(
            Labels::of(&none).unwrap_err(),
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        );
        assert_eq!(
            Labels::of(&odd).unwrap_err(),
            "\"Near\" is not a valid label selector operator"
        );
    }
}
