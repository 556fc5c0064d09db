//! AWS Signature Version 4, for requests with their parameters in the body.

use std::fmt::Write;

use jiff::Timestamp;
use ring::{digest, hmac};

use super::credentials::Credentials;

#[derive(Debug)]
pub struct Signing<'a> {
    pub region: &'a str,
    pub service: &'a str,
    pub host: &'a str,
    pub at: Timestamp,
}

/// The headers to be sent with the request, `host` aside.
pub fn sign(
    signing: &Signing<'_>,
    keys: &Credentials,
    content_type: &str,
    body: &str,
) -> Vec<(String, String)> {
    let stamp = signing.at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut headers = vec![
        ("content-type".to_owned(), content_type.to_owned()),
        ("host".to_owned(), signing.host.to_owned()),
        ("x-amz-date".to_owned(), stamp),
    ];
    if let Some(token) = &keys.session_token {
        headers.push(("x-amz-security-token".to_owned(), token.clone()));
    }
    let authorization = authorization(signing, keys, "POST", "", &headers, body);
    headers.retain(|(name, _)| name != "host");
    headers.push(("authorization".to_owned(), authorization));
    headers
}

/// `headers` are sorted by name, and have the date.
fn authorization(
    signing: &Signing<'_>,
    keys: &Credentials,
    method: &str,
    query: &str,
    headers: &[(String, String)],
    body: &str,
) -> String {
    let stamp = signing.at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = signing.at.strftime("%Y%m%d").to_string();
    let mut canonical = format!("{method}\n/\n{query}\n");
    for (name, value) in headers {
        canonical.push_str(&format!("{name}:{}\n", value.trim()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    canonical.push_str(&format!("\n{names}\n{}", hash(body)));
    let scope = format!("{date}/{}/{}/aws4_request", signing.region, signing.service);
    let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hash(&canonical));
    let mut key = format!("AWS4{}", keys.secret_access_key).into_bytes();
    for part in [
        date.as_str(),
        signing.region,
        signing.service,
        "aws4_request",
    ] {
        key = keyed(&key, part);
    }
    let signature = hex(&keyed(&key, &to_sign));
    let id = &keys.access_key_id;
    format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hash(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From AWS's own documentation of the signing process.
    #[test]
    fn the_documented_example_is_signed_as_documented() {
        let signing = Signing {
            region: "us-east-1",
            service: "iam",
            host: "iam.amazonaws.com",
            at: "2015-08-30T12:36:00Z".parse().unwrap(),
        };
        let keys = Credentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
            expires: None,
        };
        let headers = [
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
            ("host", "iam.amazonaws.com"),
            ("x-amz-date", "20150830T123600Z"),
        ];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let query = "Action=ListUsers&Version=2010-05-08";
        let found = authorization(&signing, &keys, "GET", query, &headers, "");
        let expected = "AWS4-HMAC-SHA256 \
            Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
            SignedHeaders=content-type;host;x-amz-date, \
            Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";
        assert_eq!(found, expected);
    }
}
