//! A request's body: bounded in size and in time, and JSON.

use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::Limits;
use super::error::ServiceError;

/// Reads the whole body. An error names the path of the wrong value, as in `giveBack[3]`.
pub async fn read<T: DeserializeOwned>(body: Body, limits: &Limits) -> Result<T, ServiceError> {
    let reading = Limited::new(body, limits.body).collect();
    let read = tokio::time::timeout(limits.body_timeout, reading).await;
    let read = read.map_err(|_| ServiceError::too_slow(limits.body_timeout))?;
    let bytes = read.map_err(|error| {
        if error.is::<LengthLimitError>() {
            ServiceError::too_large(limits.body)
        } else {
            ServiceError::invalid("body", error)
        }
    })?;
    let bytes = bytes.to_bytes();
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        // A document that is not an object, or a field that is missing, has no path.
        let field = if path == "." { "body" } else { &path };
        ServiceError::invalid(field, error.inner())
    })?;
    json.end().map_err(|error| ServiceError::invalid("body", error))?;
    Ok(value)
}
