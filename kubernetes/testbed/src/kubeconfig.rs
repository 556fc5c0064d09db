//! Kubeconfigs: the server, and the credentials of the client. As JSON, which is YAML.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

pub fn text(server: &str, ca: &str, user: &str, token: &str) -> String {
    let cluster =
        json!({"server": server, "certificate-authority-data": BASE64_STANDARD.encode(ca)});
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": user}}],
        "current-context": "testbed",
    })
    .to_string()
}
