//! Query parameters.

use std::collections::HashMap;

use axum::extract::Query;
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use http::Uri;

use crate::decode::FieldValidation;

#[derive(Clone, Debug, Default)]
pub struct Params {
    pub watch: bool,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub limit: Option<usize>,
    pub continue_token: Option<String>,
    pub resource_version: Option<String>,
    pub version_match: Option<String>,
    pub send_initial_events: Option<bool>,
    pub bookmarks: bool,
    pub timeout_seconds: Option<u64>,
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    pub dry_run: bool,
    pub force: bool,
    all: HashMap<String, String>,
}

impl Params {
    pub fn parse(uri: &Uri) -> Result<Self> {
        let Query(all) = Query::<HashMap<String, String>>::try_from_uri(uri)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let get = |name: &str| all.get(name).filter(|value| !value.is_empty()).cloned();
        let flag = |name: &str| all.get(name).map(|value| !matches!(value.as_str(), "false" | "0"));
        let field_validation = match get("fieldValidation").as_deref() {
            None => FieldValidation::default(),
            Some("Ignore") => FieldValidation::Ignore,
            Some("Warn") => FieldValidation::Warn,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["Ignore", "Strict", "Warn"];
                return Err(unsupported("fieldValidation", other, &supported));
            }
        };
        let dry_run = match get("dryRun").as_deref() {
            None => false,
            Some("All") => true,
            Some(other) => return Err(unsupported("dryRun", other, &["All"])),
        };
        Ok(Self {
            watch: flag("watch").unwrap_or(false),
            label_selector: get("labelSelector"),
            field_selector: get("fieldSelector"),
            limit: number(get("limit"), "limit")?.filter(|limit| *limit > 0),
            continue_token: get("continue"),
            resource_version: get("resourceVersion"),
            version_match: get("resourceVersionMatch"),
            send_initial_events: flag("sendInitialEvents"),
            bookmarks: flag("allowWatchBookmarks").unwrap_or(false),
            timeout_seconds: number(get("timeoutSeconds"), "timeoutSeconds")?,
            field_manager: get("fieldManager"),
            field_validation,
            dry_run,
            force: flag("force").unwrap_or(false),
            all,
        })
    }

    pub fn get(&self, name: &str) -> Option<String> {
        self.all.get(name).cloned()
    }

    /// The requested version as a number. `None` means any version: `0` or no parameter.
    pub fn version(&self) -> Result<Option<u64>> {
        let Some(text) = self.resource_version.as_deref().filter(|text| *text != "0") else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            let why =
                FieldError::invalid(Path::new("resourceVersion"), text.into(), detail).to_string();
            if self.watch {
                Status::unclassified(why)
            } else {
                Status::bad_request(format!("invalid resource version: {why}"))
            }
        })
    }
}

/// A number below zero counts as not given.
fn number<T: TryFrom<i64>>(text: Option<String>, name: &str) -> Result<Option<T>> {
    let Some(text) = text else { return Ok(None) };
    let number: i64 = text.parse().map_err(|_| {
        Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax ({name})"))
    })?;
    Ok(T::try_from(number).ok())
}

fn unsupported(field: &str, given: &str, supported: &[&str]) -> Status {
    options_invalid(FieldError::not_supported(Path::new(field), &given.into(), supported))
}

pub fn options_invalid(error: FieldError) -> Status {
    let subject = Subject {
        group: "meta.k8s.io",
        resource: "listoptions",
        kind: "ListOptions",
    };
    Status::invalid(subject, "", &[error])
}
