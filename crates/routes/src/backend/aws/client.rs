//! EC2's query API: the request is a form, the answer XML.

use http::Method;
use jiff::Timestamp;

use super::credentials::Keys;
use super::query::{CONTENT_TYPE, form, read};
use super::settings::AwsSettings;
use super::sign::{Signing, sign};
use super::xml::Element;
use crate::backend::http::{Http, request};
use crate::backend::{BackendError, ErrorKind};

const VERSION: &str = "2016-11-15";

#[derive(Debug)]
pub struct Client {
    http: Http,
    keys: Keys,
    region: String,
    endpoint: String,
    host: String,
}

impl Client {
    pub fn new(settings: AwsSettings) -> Result<Self, BackendError> {
        let http = Http::new()?;
        let host = settings
            .endpoint
            .split_once("://")
            .map_or("", |(_, host)| host);
        let host = host.split('/').next().unwrap_or_default().to_owned();
        Ok(Self {
            keys: Keys::new(settings.credentials, http.clone()),
            http,
            region: settings.region,
            endpoint: settings.endpoint,
            host,
        })
    }

    pub async fn call(
        &self,
        action: &str,
        parameters: &[(String, String)],
    ) -> Result<Element, BackendError> {
        let keys = self.keys.get().await?;
        let body = form(action, VERSION, parameters);
        let signing = Signing {
            region: &self.region,
            service: "ec2",
            host: &self.host,
            at: Timestamp::now(),
        };
        let headers = sign(&signing, &keys, CONTENT_TYPE, &body);
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let uri = format!("{}/", self.endpoint);
        let request = request(action, Method::POST, &uri, &headers, body)?;
        let answer = self.http.call(action, request).await?;
        let read = read(action, &answer);
        if let Err(BackendError {
            kind: ErrorKind::Unauthorized,
            ..
        }) = &read
        {
            self.keys.invalidate();
        }
        read
    }
}
