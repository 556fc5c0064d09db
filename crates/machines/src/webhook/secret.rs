//! Certificates as a Secret, and back. Pure.

use std::collections::BTreeMap;

use berth_api::names::NAMESPACE;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::SECRET;
use super::certificates::Certificates;

const AUTHORITY_MADE: &str = "berth.dev/authority-made";
const CERTIFICATE_MADE: &str = "berth.dev/certificate-made";
const SIGNED_BY: &str = "berth.dev/certificate-authority-made";
const NAMES: &str = "berth.dev/certificate-names";

/// `before` is the Secret that this one replaces: the API server refuses it if another writer came
/// in between.
pub fn to_secret(made: &Certificates, before: Option<&Secret>) -> Secret {
    let data = [
        ("ca.crt", &made.authorities),
        ("ca.key", &made.authority_key),
        ("tls.crt", &made.certificate),
        ("tls.key", &made.key),
    ];
    let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
    let annotations = [
        (AUTHORITY_MADE, made.authority_made.to_string()),
        (CERTIFICATE_MADE, made.certificate_made.to_string()),
        (SIGNED_BY, made.signed_by.to_string()),
        (NAMES, made.names.join(",")),
    ];
    let annotations: BTreeMap<String, String> =
        annotations.map(|(name, value)| (name.to_owned(), value)).into();
    Secret {
        metadata: ObjectMeta {
            name: Some(SECRET.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            resource_version: before.and_then(ResourceExt::resource_version),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        data: Some(data.into()),
        // A Secret's type can't be changed.
        type_: before.and_then(|before| before.type_.clone()),
        ..Secret::default()
    }
}

/// `None` if something is missing or can't be read.
pub fn from_secret(secret: &Secret) -> Option<Certificates> {
    let data = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    let time = |name: &str| -> Option<Timestamp> { secret.annotations().get(name)?.parse().ok() };
    let names = secret.annotations().get(NAMES)?;
    Some(Certificates {
        authorities: data("ca.crt")?,
        authority_key: data("ca.key")?,
        authority_made: time(AUTHORITY_MADE)?,
        certificate: data("tls.crt")?,
        key: data("tls.key")?,
        certificate_made: time(CERTIFICATE_MADE)?,
        signed_by: time(SIGNED_BY)?,
        names: names.split(',').map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_gives_back_what_was_put_into_it() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let made = Certificates::make(&["a.b".to_owned(), "10.0.0.1".to_owned()], now).unwrap();
        let mut secret = to_secret(&made, None);
        assert_eq!(from_secret(&secret), Some(made));
        secret.data.as_mut().unwrap().remove("tls.key");
        assert_eq!(from_secret(&secret), None);
    }
}
