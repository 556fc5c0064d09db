//! Settings in the forms that users of OpenStack know: `cloud.conf` of the cloud controller
//! manager, or `clouds.yaml`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::backend::ini::{Ini, IniError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenStackSettings {
    /// The id of the router whose routes are ours.
    pub router: String,
    pub auth: Auth,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Neutron without authentication.
    None {
        endpoint: String,
    },
    Keystone(Keystone),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keystone {
    pub url: String,
    pub region: Option<String>,
    /// `public`, `internal` or `admin`.
    pub interface: String,
    pub identity: Identity,
    pub project: Option<Project>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Identity {
    Password { user: Project, password: String },
    ApplicationCredential { id: String, secret: String },
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// A user or project: by id, or by name in a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Project {
    Id(String),
    Name { name: String, domain: Domain },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    Id(String),
    Name(String),
}

impl Domain {
    pub fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!({"id": id}),
            Self::Name(name) => json!({"name": name}),
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("--cloud-config: {0}")]
    File(#[from] IniError),
    #[error("--cloud-config: clouds.yaml: {0}")]
    Yaml(String),
    #[error("--cloud-config: there is no cloud {name:?}: set OS_CLOUD to one of {known}")]
    NoCloud { name: String, known: String },
    #[error("OpenStack: which router? Set router-id in [Route] of --cloud-config, or OS_ROUTER_ID")]
    NoRouter,
    #[error("OpenStack: {0} is missing in [Global] of --cloud-config")]
    Missing(&'static str),
}

/// By lower-case names without dashes and underscores.
struct Keys(BTreeMap<String, String>);

impl Keys {
    fn get(&self, names: &[&str]) -> Option<String> {
        let found = names.iter().find_map(|name| self.0.get(&plain(name)));
        found.filter(|value| !value.is_empty()).cloned()
    }
}

fn plain(name: &str) -> String {
    name.replace(['-', '_'], "").to_lowercase()
}

#[derive(Deserialize)]
struct Clouds {
    clouds: BTreeMap<String, Value>,
}

impl OpenStackSettings {
    /// `file` is the text of `--cloud-config`: a `cloud.conf`, or a `clouds.yaml`.
    pub fn new(
        file: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, SettingsError> {
        let file = file.unwrap_or_default();
        let is_yaml = file.lines().any(|line| line.trim_end() == "clouds:");
        let mut router = environment.get("OS_ROUTER_ID").cloned();
        let keys = if is_yaml {
            let name = environment
                .get("OS_CLOUD")
                .map_or("openstack", String::as_str);
            of_cloud(file, name)?
        } else {
            let ini = Ini::parse(file)?;
            router = router.or_else(|| ini.get("Route", "router-id").map(ToOwned::to_owned));
            let names = KEYS.iter().filter_map(|name| {
                let value = ini.get("Global", name)?;
                Some((plain(name), value.to_owned()))
            });
            Keys(names.collect())
        };
        let router = router.or_else(|| keys.get(&["router_id"]));
        Ok(Self {
            router: router.ok_or(SettingsError::NoRouter)?,
            auth: auth(&keys)?,
        })
    }
}

const KEYS: &[&str] = &[
    "auth-type",
    "endpoint",
    "auth-url",
    "region",
    "os-endpoint-type",
    "interface",
    "username",
    "user-id",
    "password",
    "domain-id",
    "domain-name",
    "user-domain-id",
    "user-domain-name",
    "tenant-id",
    "tenant-name",
    "project-id",
    "project-name",
    "tenant-domain-id",
    "tenant-domain-name",
    "project-domain-id",
    "project-domain-name",
    "application-credential-id",
    "application-credential-secret",
    "router-id",
];

/// The keys under `auth` and those beside it, merged.
fn of_cloud(file: &str, name: &str) -> Result<Keys, SettingsError> {
    let clouds: Clouds =
        serde_saphyr::from_str(file).map_err(|error| SettingsError::Yaml(error.to_string()))?;
    let known = clouds.clouds.keys().cloned().collect::<Vec<_>>().join(", ");
    let cloud = clouds
        .clouds
        .get(name)
        .ok_or_else(|| SettingsError::NoCloud {
            name: name.to_owned(),
            known,
        })?;
    let mut keys = BTreeMap::new();
    for level in [Some(cloud), cloud.get("auth")] {
        for (name, value) in level.and_then(Value::as_object).into_iter().flatten() {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(number) => number.to_string(),
                _ => continue,
            };
            keys.insert(plain(name), text);
        }
    }
    Ok(Keys(keys))
}

fn auth(keys: &Keys) -> Result<Auth, SettingsError> {
    if keys.get(&["auth-type"]).as_deref() == Some("none") {
        let endpoint = keys
            .get(&["endpoint"])
            .ok_or(SettingsError::Missing("endpoint"))?;
        return Ok(Auth::None { endpoint });
    }
    let url = keys
        .get(&["auth-url"])
        .ok_or(SettingsError::Missing("auth-url"))?;
    let credential = keys.get(&["application-credential-id"]);
    let (identity, project) = match credential {
        Some(id) => {
            let secret = keys.get(&["application-credential-secret"]);
            let secret = secret.ok_or(SettingsError::Missing("application-credential-secret"))?;
            (Identity::ApplicationCredential { id, secret }, None)
        }
        None => {
            let user = named(keys, &["user-id"], &["username"], "user");
            let user = user.ok_or(SettingsError::Missing("username"))?;
            let password = keys
                .get(&["password"])
                .ok_or(SettingsError::Missing("password"))?;
            let ids = ["tenant-id", "project-id"];
            let project = named(keys, &ids, &["tenant-name", "project-name"], "project");
            let project = project.ok_or(SettingsError::Missing("tenant-id"))?;
            (Identity::Password { user, password }, Some(project))
        }
    };
    let interface = keys.get(&["os-endpoint-type", "interface"]);
    let interface = interface.unwrap_or_else(|| "public".to_owned());
    Ok(Auth::Keystone(Keystone {
        url,
        region: keys.get(&["region", "region_name"]),
        interface: interface.trim_end_matches("URL").to_owned(),
        identity,
        project,
    }))
}

fn named(keys: &Keys, ids: &[&str], names: &[&str], of: &str) -> Option<Project> {
    if let Some(id) = keys.get(ids) {
        return Some(Project::Id(id));
    }
    let name = keys.get(names)?;
    let tenant = if of == "project" { "tenant" } else { of };
    let with = |end: &str| {
        [
            format!("{of}-{end}"),
            format!("{tenant}-{end}"),
            end.to_owned(),
        ]
    };
    let find = |end: &str| with(end).iter().find_map(|name| keys.get(&[name]));
    let domain = match (find("domain-id"), find("domain-name")) {
        (Some(id), _) => Domain::Id(id),
        (None, name) => Domain::Name(name.unwrap_or_else(|| "Default".to_owned())),
    };
    Some(Project::Name { name, domain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_conf_is_read() {
        let file = "[Global]\nauth-url=http://k/v3\nusername=u\npassword=p\ntenant-id=t\ndomain-name=D\n[Route]\nrouter-id=r\n";
        let settings = OpenStackSettings::new(Some(file), &BTreeMap::new()).unwrap();
        assert_eq!(settings.router, "r");
        let Auth::Keystone(keystone) = settings.auth else {
            panic!("{settings:?}");
        };
        assert_eq!(keystone.project, Some(Project::Id("t".to_owned())));
        let user = Project::Name {
            name: "u".to_owned(),
            domain: Domain::Name("D".to_owned()),
        };
        let password = "p".to_owned();
        assert_eq!(keystone.identity, Identity::Password { user, password });
    }

    #[test]
    fn a_clouds_yaml_is_read() {
        let file = "clouds:\n  test:\n    region_name: R\n    auth:\n      auth_url: http://k\n      \
                    application_credential_id: a\n      application_credential_secret: b\n";
        let environment = BTreeMap::from([
            ("OS_CLOUD".to_owned(), "test".to_owned()),
            ("OS_ROUTER_ID".to_owned(), "r".to_owned()),
        ]);
        let settings = OpenStackSettings::new(Some(file), &environment).unwrap();
        let Auth::Keystone(keystone) = settings.auth else {
            panic!("{settings:?}");
        };
        assert_eq!(keystone.region.as_deref(), Some("R"));
        assert_eq!(keystone.project, None);
        let wrong = BTreeMap::from([("OS_CLOUD".to_owned(), "other".to_owned())]);
        let error = OpenStackSettings::new(Some(file), &wrong).unwrap_err();
        assert!(error.to_string().ends_with("one of test"), "{error}");
    }

    #[test]
    fn what_is_missing_is_named() {
        let file = "[Global]\nauth-url=http://k/v3\nusername=u\n[Route]\nrouter-id=r\n";
        let error = OpenStackSettings::new(Some(file), &BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("password is missing"), "{error}");
        let error = OpenStackSettings::new(None, &BTreeMap::new()).unwrap_err();
        assert!(
            error.to_string().contains("router-id in [Route]"),
            "{error}"
        );
    }
}
