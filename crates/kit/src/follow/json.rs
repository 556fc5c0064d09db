//! What a server answers to a list and to a watch, with its objects left as they are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::core::Status;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

/// A page of a list. Servers written in Go send an empty list as `null`.
#[derive(Deserialize)]
pub struct Page<'a> {
    #[serde(default)]
    pub metadata: ListMeta,
    #[serde(borrow)]
    pub items: Option<Vec<&'a RawValue>>,
}

/// A line of a watch.
#[derive(Debug)]
pub enum Line<'a> {
    Apply(&'a str),
    Delete(&'a str),
    /// Carries only the server's resourceVersion.
    Bookmark(String),
    Error(Box<Status>),
}

#[derive(Deserialize)]
struct Typed<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    resource_version: String,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: Metadata,
}

impl<'a> Line<'a> {
    pub fn read(line: &'a [u8]) -> serde_json::Result<Self> {
        let Typed { r#type, object } = match serde_json::from_slice(line) {
            Ok(typed) => typed,
            // A server that can't go on sends a Status in place of an event.
            Err(error) => {
                let status = serde_json::from_slice::<Status>(line).ok();
                let failure = status.filter(Status::is_failure).ok_or(error)?;
                return Ok(Self::Error(failure.boxed()));
            }
        };
        let json = object.get();
        Ok(match r#type {
            "ADDED" | "MODIFIED" => Self::Apply(json),
            "DELETED" => Self::Delete(json),
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(json)?;
                Self::Bookmark(bookmark.metadata.resource_version)
            }
            "ERROR" => Self::Error(serde_json::from_str::<Status>(json)?.boxed()),
            other => {
                let message = format!("a watch has an event of type {other:?}");
                return Err(serde_json::Error::custom(message));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_left_as_they_are() {
        let page: Page<'_> = serde_json::from_str(
            r#"{"kind":"PodList","items":[{"a": 1 },{}],"metadata":{"resourceVersion":"7"}}"#,
        )
        .unwrap();
        assert_eq!(page.metadata.resource_version.as_deref(), Some("7"));
        let items: Vec<&str> = page.items.unwrap().iter().map(|item| item.get()).collect();
        assert_eq!(items, [r#"{"a": 1 }"#, "{}"]);
        let empty: Page<'_> = serde_json::from_str(r#"{"items":null}"#).unwrap();
        assert!(empty.items.is_none());
    }

    #[test]
    fn a_line_is_an_event_in_any_order_of_its_fields() {
        for (text, expected) in [
            (r#"{"type":"ADDED","object":{"a":1}}"#, r#"Apply("{\"a\":1}")"#),
            (r#"{"object":{"a":1},"type":"MODIFIED"}"#, r#"Apply("{\"a\":1}")"#),
            (r#"{"type":"DELETED","object":{}}"#, r#"Delete("{}")"#),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#,
                r#"Bookmark("9")"#,
            ),
        ] {
            assert_eq!(
                format!("{:?}", Line::read(text.as_bytes()).unwrap()),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_status_is_an_error_with_or_without_a_type() {
        for text in [
            r#"{"type":"ERROR","object":{"kind":"Status","code":410}}"#,
            r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":410}"#,
        ] {
            let Line::Error(status) = Line::read(text.as_bytes()).unwrap() else {
                panic!("{text} is an error");
            };
            assert_eq!(status.code, 410);
        }
    }

    #[test]
    fn a_line_that_was_cut_is_told_from_one_that_is_wrong() {
        let cut = Line::read(br#"{"type":"ADDED","object":{"a""#).unwrap_err();
        assert!(cut.is_eof());
        // The line was cut in the middle of a character.
        assert!(
            Line::read(b"{\"type\":\"ADDED\",\"object\":{\"a\":\"\xc3")
                .unwrap_err()
                .is_eof()
        );
        let no_text = Line::read(b"{\"type\":\"ADDED\",\"object\":\"\xff\"}").unwrap_err();
        assert!(!no_text.is_eof());
        let no_object = Line::read(br#"{"type":"ADDED"}"#).unwrap_err();
        assert!(no_object.to_string().contains("object"), "{no_object}");
        let unknown = Line::read(br#"{"type":"GONE","object":{}}"#).unwrap_err();
        assert!(!unknown.is_eof());
        assert!(unknown.to_string().contains("GONE"), "{unknown}");
        assert!(!Line::read(b"<html>").unwrap_err().is_eof());
    }
}
