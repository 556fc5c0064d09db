//! Ignition, in a version of the specification that both CoreOS and Flatcar have read for years.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::File;

const VERSION: &str = "3.3.0";

/// 0600 and 0644: JSON has no octal numbers.
const PRIVATE: u32 = 0o600;
const PUBLIC: u32 = 0o644;

pub fn document(hostname: &str, keys: &[String], files: &[File]) -> String {
    let hostname = File {
        path: "/etc/hostname".to_owned(),
        private: false,
        content: format!("{hostname}\n"),
    };
    let files: Vec<Value> = std::iter::once(&hostname).chain(files).map(file).collect();
    let mut config = json!({
        "ignition": {"version": VERSION},
        "storage": {"files": files},
    });
    if !keys.is_empty() {
        let user = json!({"users": [{"name": "core", "sshAuthorizedKeys": keys}]});
        config["passwd"] = user;
    }
    format!("{config:#}\n")
}

fn file(file: &File) -> Value {
    json!({
        "path": file.path,
        "mode": if file.private { PRIVATE } else { PUBLIC },
        "overwrite": true,
        "contents": {"source": format!("data:;base64,{}", STANDARD.encode(&file.content))},
    })
}
