//! Reads: one object, a list, a scale.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use berth_apimachinery::conversion::Conversion;
use berth_apimachinery::selectors::Matcher;
use berth_apimachinery::status::{FieldError, Path, Result, Status};
use bytes::Bytes;
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json as value};

use super::answer::{self, Form};
use super::call::{Call, Front};
use super::params::{Params, options_invalid};
use crate::kinds::Kind;
use crate::resources::{self, Resources};
use crate::store::{Place, Range, Record, TooOld};
use crate::tables::{Include, Table};

pub fn get(front: &Front, call: &Call) -> Result<Response> {
    if let Some(asked) = call
        .params
        .version()
        .map_err(|status| Status::unclassified(status.message))?
    {
        not_in_the_future(&front.resources, asked)?;
    }
    let record = front
        .resources
        .get(&call.kind, call.target.namespace(), &call.target.name)?;
    answer::object(&front.resources, &call.kind, &record, call.form, 200)
}

pub fn scale(front: &Front, call: &Call) -> Result<Response> {
    let record = front
        .resources
        .get(&call.kind, call.target.namespace(), &call.target.name)?;
    Ok(answer::json(200, &scale_of(&front.resources, &call.kind, &record)?))
}

pub fn scale_of(resources: &Resources, kind: &Kind, record: &Record) -> Result<Value> {
    let paths = kind.scale.as_ref().ok_or_else(Status::no_such_path)?;
    Ok(resources::scale(kind, paths, &resources.decode(kind, record)?))
}

pub fn list(front: &Front, call: &Call) -> Result<Response> {
    let found = find(&front.resources, call)?;
    let mut metadata = value!({"resourceVersion": found.version.to_string()});
    if let Some(token) = found.next {
        metadata["continue"] = token.into();
        if let Some(remaining) = found.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    let kind = &call.kind;
    match call.form {
        Form::Whole if kind.conversion == Conversion::None => {
            Ok(stream_list(kind, &metadata, found.records))
        }
        Form::Whole => {
            let items = decoded(&front.resources, kind, &found.records)?;
            Ok(answer::json(
                200,
                &value!({"kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": metadata, "items": items}),
            ))
        }
        Form::Metadata => {
            let objects = decoded(&front.resources, kind, &found.records)?;
            let items: Vec<Value> = objects.iter().map(answer::partial).collect();
            Ok(answer::json(
                200,
                &value!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items}),
            ))
        }
        Form::Table(include) => tabled(front, kind, &found.records, include, metadata),
    }
}

fn tabled(
    front: &Front,
    kind: &Kind,
    records: &[Record],
    include: Include,
    metadata: Value,
) -> Result<Response> {
    let table = Table::new(kind);
    let now = front.resources.clock.now();
    let objects = decoded(&front.resources, kind, records)?;
    let rows = objects.iter().map(|object| table.row(object, include, now)).collect();
    Ok(answer::json(200, &answer::table(Some(table.columns()), rows, metadata)))
}

fn decoded(resources: &Resources, kind: &Kind, records: &[Record]) -> Result<Vec<Value>> {
    records.iter().map(|record| resources.decode(kind, record)).collect()
}

/// The objects that a list or a deletecollection selects.
pub struct Found {
    pub version: u64,
    pub records: Vec<Record>,
    next: Option<String>,
    remaining: Option<usize>,
}

/// The last object of a page: the next page begins after it. A token without `version` continues
/// an expired list at the current state.
#[derive(Serialize, Deserialize)]
struct Token {
    #[serde(rename = "rv")]
    version: Option<u64>,
    namespace: String,
    name: String,
}

impl Token {
    fn encode(version: Option<u64>, place: &Place) -> String {
        let token = Self {
            version,
            namespace: place.0.to_string(),
            name: place.1.to_string(),
        };
        BASE64_URL_SAFE_NO_PAD.encode(value!(token).to_string())
    }

    fn decode(text: &str) -> Result<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let token = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        token.ok_or_else(|| {
            Status::bad_request("continue key is not valid: it was not given out by this server")
        })
    }
}

pub fn find(resources: &Resources, call: &Call) -> Result<Found> {
    let params = &call.params;
    let matcher = matcher(call)?;
    let token = params.continue_token.as_deref().map(Token::decode).transpose()?;
    if token.is_some() && params.version()?.is_some() {
        let why = "specifying resource version is not allowed when using continue";
        return Err(Status::bad_request(why));
    }
    if params.send_initial_events.is_some() {
        let field = Path::new("sendInitialEvents");
        let detail = "sendInitialEvents is forbidden for list";
        return Err(options_invalid(FieldError::forbidden(field, detail)));
    }
    let at = match &token {
        Some(token) => token.version,
        None => exact_version(resources, params)?,
    };
    let after: Option<Place> = token
        .as_ref()
        .map(|token| (token.namespace.as_str().into(), token.name.as_str().into()));
    if let (None, None, Some(name)) = (at, &after, matcher.single_name())
        && (call.target.namespace.is_some() || !call.kind.namespaced)
    {
        return Ok(find_one(resources, call, &matcher, name));
    }
    let plain = matcher.is_everything();
    let range = Range {
        namespace: call.target.namespace.as_deref().map(Arc::from),
        after: after.clone(),
        at,
        // A selector is applied after the read, so it needs all records.
        limit: params.limit.filter(|_| plain),
    };
    let page = match resources.store.list(&call.kind.table(), &range) {
        Ok(page) => page,
        Err(too_old) => return Err(expired(too_old, after)),
    };
    let version = page.version;
    let limit = params.limit.unwrap_or(usize::MAX);
    let mut matched = page
        .records
        .into_iter()
        .filter(|(_, record)| plain || matcher.matches(&record.body));
    let kept: Vec<(Place, Record)> = matched.by_ref().take(limit).collect();
    let more = page.remaining > 0 || matched.next().is_some();
    let consistent = at.or(Some(version));
    let next = kept
        .last()
        .filter(|_| more)
        .map(|(place, _)| Token::encode(consistent, place));
    Ok(Found {
        version,
        next,
        remaining: plain.then_some(page.remaining),
        records: kept.into_iter().map(|(_, record)| record).collect(),
    })
}

/// A list for one name is a look-up.
fn find_one(resources: &Resources, call: &Call, matcher: &Matcher, name: &str) -> Found {
    // The version is read before the object: a watch from it repeats changes in between and misses
    // none.
    let version = resources.store.version();
    let record = resources.get(&call.kind, call.target.namespace(), name).ok();
    Found {
        version,
        records: record
            .into_iter()
            .filter(|record| matcher.matches(&record.body))
            .collect(),
        next: None,
        remaining: None,
    }
}

pub fn matcher(call: &Call) -> Result<Matcher> {
    let params = &call.params;
    Matcher::new(
        params.label_selector.as_deref(),
        params.field_selector.as_deref(),
        &call.kind.selectable(),
    )
}

/// `Some` if the client asks for an exact version. All others get the current state.
fn exact_version(resources: &Resources, params: &Params) -> Result<Option<u64>> {
    let asked = params.version()?;
    let field = Path::new("resourceVersionMatch");
    let exact = match (params.version_match.as_deref(), asked) {
        (None, _) => params.limit.is_some(),
        (Some(_), _) if params.resource_version.is_none() => {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            return Err(options_invalid(FieldError::forbidden(field, detail)));
        }
        (Some("NotOlderThan"), _) => false,
        (Some("Exact"), Some(_)) => true,
        (Some("Exact"), None) => {
            let detail = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
            return Err(options_invalid(FieldError::forbidden(field, detail)));
        }
        (Some(other), _) => {
            let supported = ["Exact", "NotOlderThan", ""];
            let error = FieldError::not_supported(field, &other.into(), &supported);
            return Err(options_invalid(error));
        }
    };
    if let Some(asked) = asked {
        not_in_the_future(resources, asked)?;
    }
    Ok(asked.filter(|_| exact))
}

pub fn not_in_the_future(resources: &Resources, asked: u64) -> Result<()> {
    let current = resources.store.version();
    if asked > current {
        return Err(Status::future_version(asked, current));
    }
    Ok(())
}

fn expired(too_old: TooOld, after: Option<Place>) -> Status {
    let mut status = Status::expired(format!(
        "The provided continue parameter or resourceVersion ({}) is too old: the \
         history begins at {}. List again, or go on with the continue token in this \
         answer, which skips what changed in between.",
        too_old.asked, too_old.oldest
    ));
    status.continue_token = after.map(|place| Token::encode(None, &place));
    status
}

/// A larger answer is sent in pieces, so that a long list is never in memory twice.
const PIECE: usize = 128 << 10;

fn stream_list(kind: &Kind, metadata: &Value, records: Vec<Record>) -> Response {
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.kind,
        kind.api_version()
    );
    let mut first = head.into_bytes();
    let mut rest = records.into_iter().peekable();
    fill(&mut first, &mut rest);
    if rest.peek().is_none() {
        return answer::typed(200, first.into(), answer::JSON);
    }
    let mut response = answer::typed(200, Bytes::new(), answer::JSON);
    let pieces = stream::unfold((Some(first), rest), |(ready, mut rest)| async move {
        let piece = match ready {
            Some(piece) => piece,
            None if rest.peek().is_none() => return None,
            None => {
                let mut piece = Vec::with_capacity(PIECE + (PIECE >> 2));
                fill(&mut piece, &mut rest);
                piece
            }
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(piece)), (None, rest)))
    });
    *response.body_mut() = Body::from_stream(pieces);
    response
}

/// Adds records until the piece is full; after the last one, the end of the list.
fn fill(piece: &mut Vec<u8>, rest: &mut std::iter::Peekable<std::vec::IntoIter<Record>>) {
    while piece.len() < PIECE {
        let Some(record) = rest.next() else { break };
        piece.extend_from_slice(&record.body);
        if rest.peek().is_some() {
            piece.push(b',');
        }
    }
    if rest.peek().is_none() {
        piece.extend_from_slice(b"]}\n");
    }
}
