//! cloud-init's user data: files, a host name, keys, and what to run once the files are there.

use serde_json::{Map, Value, json};

use super::File;

/// A file that never changes.
pub struct Fixed {
    path: &'static str,
    content: &'static str,
}

/// cloud-init must not write its own network's configuration over ours at the next start.
pub const NO_NETWORK: Fixed = Fixed {
    path: "/etc/cloud/cloud.cfg.d/99-disable-network-config.cfg",
    content: "network: {config: disabled}\n",
};

impl Fixed {
    pub fn file(&self) -> File {
        File {
            path: self.path.to_owned(),
            private: false,
            content: self.content.to_owned(),
        }
    }
}

/// `commands` run when there are files.
pub fn document(hostname: &str, keys: &[String], files: &[File], commands: &[&[&str]]) -> String {
    let mut config = Map::new();
    config.insert("hostname".to_owned(), json!(hostname));
    if !keys.is_empty() {
        config.insert("ssh_authorized_keys".to_owned(), json!(keys));
    }
    if !files.is_empty() {
        let each = files.iter().map(|file| {
            json!({
                "path": file.path,
                "owner": "root:root",
                "permissions": if file.private { "0600" } else { "0644" },
                "content": file.content,
            })
        });
        config.insert("write_files".to_owned(), each.collect());
        config.insert("runcmd".to_owned(), json!(commands));
    }
    format!("#cloud-config\n{}", yaml(&Value::Object(config)))
}

/// Values from here have text for keys and can always be written; a document without content would
/// be noticed by every test.
pub fn yaml(value: &Value) -> String {
    serde_saphyr::to_string(value).unwrap_or_default()
}
