//! Settings in the forms that users of AWS know: its environment, its shared files, and
//! `cloud.conf` of the cloud controller manager.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::backend::ini::{Ini, IniError};

/// Which route tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tables {
    Ids(Vec<String>),
    /// Those with the tag `kubernetes.io/cluster/NAME`.
    OfCluster(String),
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ids(ids) => f.write_str(&ids.join(", ")),
            Self::OfCluster(name) => write!(f, "with the tag kubernetes.io/cluster/{name}"),
        }
    }
}

/// Where the credentials come from. The credentials themselves are read later: they may change
/// while we run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `AWS_ACCESS_KEY_ID` and its like.
    Environment,
    /// A role that a token file gives access to, as in pods of EKS.
    WebIdentity(WebIdentity),
    /// `~/.aws/credentials`, a profile in it.
    File { path: PathBuf, profile: String },
    /// The role of the instance that we are on.
    Instance { endpoint: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebIdentity {
    pub role: String,
    /// The file is rewritten while we run.
    pub token_file: PathBuf,
    /// Our name in the records of the account.
    pub session: String,
    /// The endpoint of STS.
    pub endpoint: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsSettings {
    pub region: String,
    pub endpoint: String,
    pub tables: Tables,
    pub credentials: Source,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("--cloud-config: {0}")]
    File(#[from] IniError),
    #[error("AWS: no region: set AWS_REGION, or Region in [Global] of --cloud-config")]
    NoRegion,
    #[error(
        "AWS: which route tables? Set RouteTableID in [Global] of --cloud-config, or \
         KubernetesClusterID for those with the tag kubernetes.io/cluster/NAME"
    )]
    NoTables,
}

const SESSION: &str = "berth-route-controller";
const METADATA: &str = "http://169.254.169.254";

impl AwsSettings {
    /// `file` is the text of `--cloud-config`, `environment` that of the process.
    pub fn new(
        file: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, SettingsError> {
        let ini = Ini::parse(file.unwrap_or_default())?;
        let set = |name: &str| {
            environment
                .get(name)
                .filter(|value| !value.is_empty())
                .cloned()
        };
        let region = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
        let region = region.or_else(|| ini.get("Global", "Region").map(ToOwned::to_owned));
        let region = region.ok_or(SettingsError::NoRegion)?;
        let endpoint = set("AWS_ENDPOINT_URL_EC2").or_else(|| set("AWS_ENDPOINT_URL"));
        let sts = set("AWS_ENDPOINT_URL_STS").or_else(|| set("AWS_ENDPOINT_URL"));
        let suffix = if region.starts_with("cn-") {
            "amazonaws.com.cn"
        } else {
            "amazonaws.com"
        };
        let endpoint = endpoint.unwrap_or_else(|| format!("https://ec2.{region}.{suffix}"));
        let sts = sts.unwrap_or_else(|| format!("https://sts.{region}.{suffix}"));
        let ids: Vec<String> = ini
            .all("Global", "RouteTableID")
            .iter()
            .flat_map(|ids| ids.split(','))
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty())
            .collect();
        let cluster = ini.get("Global", "KubernetesClusterID");
        let cluster = cluster.or_else(|| ini.get("Global", "KubernetesClusterTag"));
        let tables = match (ids.is_empty(), cluster) {
            (false, _) => Tables::Ids(ids),
            (true, Some(name)) => Tables::OfCluster(name.to_owned()),
            (true, None) => return Err(SettingsError::NoTables),
        };
        Ok(Self {
            region,
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            tables,
            credentials: source(&set, sts.trim_end_matches('/')),
        })
    }
}

/// In the order in which AWS's own tools look.
fn source(set: &impl Fn(&str) -> Option<String>, sts: &str) -> Source {
    if set("AWS_ACCESS_KEY_ID").is_some() {
        return Source::Environment;
    }
    let role = set("AWS_ROLE_ARN").zip(set("AWS_WEB_IDENTITY_TOKEN_FILE"));
    if let Some((role, token_file)) = role {
        return Source::WebIdentity(WebIdentity {
            role,
            token_file: PathBuf::from(token_file),
            session: set("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| SESSION.to_owned()),
            endpoint: sts.to_owned(),
        });
    }
    let home = set("HOME").map(|home| PathBuf::from(home).join(".aws/credentials"));
    let named = set("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
    match named.or(home).filter(|path| path.exists()) {
        Some(path) => Source::File {
            path,
            profile: set("AWS_PROFILE").unwrap_or_else(|| "default".to_owned()),
        },
        None => Source::Instance {
            endpoint: set("AWS_EC2_METADATA_SERVICE_ENDPOINT")
                .unwrap_or_else(|| METADATA.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn the_environment_and_the_file_go_together() {
        let environment = environment(&[
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "a"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000/"),
        ]);
        let file = "[Global]\nRouteTableID=rtb-1\nRouteTableID=rtb-2\n";
        let settings = AwsSettings::new(Some(file), &environment).unwrap();
        assert_eq!(settings.endpoint, "http://127.0.0.1:5000");
        assert_eq!(settings.tables.to_string(), "rtb-1, rtb-2");
        assert_eq!(settings.credentials, Source::Environment);
    }

    #[test]
    fn without_route_tables_the_error_names_the_fix() {
        let environment = environment(&[("AWS_REGION", "eu-central-1")]);
        let error = AwsSettings::new(None, &environment).unwrap_err();
        assert!(
            error.to_string().contains("RouteTableID in [Global]"),
            "{error}"
        );
    }

    #[test]
    fn a_web_identity_comes_before_files_and_after_keys() {
        let of = |more: &[(&str, &str)]| {
            let irsa = [
                ("AWS_REGION", "cn-north-1"),
                ("AWS_ROLE_ARN", "arn:aws-cn:iam::1:role/routes"),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", "/var/run/token"),
                ("AWS_SHARED_CREDENTIALS_FILE", "/dev/null"),
            ];
            let environment = environment(&[&irsa[..], more].concat());
            let file = "[Global]\nKubernetesClusterID = test\n";
            AwsSettings::new(Some(file), &environment)
                .unwrap()
                .credentials
        };
        let identity = WebIdentity {
            role: "arn:aws-cn:iam::1:role/routes".to_owned(),
            token_file: PathBuf::from("/var/run/token"),
            session: SESSION.to_owned(),
            endpoint: "https://sts.cn-north-1.amazonaws.com.cn".to_owned(),
        };
        assert_eq!(of(&[]), Source::WebIdentity(identity.clone()));
        let named = WebIdentity {
            session: "me".to_owned(),
            endpoint: "http://127.0.0.1:5000".to_owned(),
            ..identity
        };
        let more = [
            ("AWS_ROLE_SESSION_NAME", "me"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000/"),
        ];
        assert_eq!(of(&more), Source::WebIdentity(named));
        assert_eq!(of(&[("AWS_ACCESS_KEY_ID", "a")]), Source::Environment);
    }

    #[test]
    fn without_keys_the_instance_s_role_is_used() {
        let environment = environment(&[("AWS_REGION", "eu-central-1"), ("HOME", "/nowhere")]);
        let file = "[Global]\nKubernetesClusterID = test\n";
        let settings = AwsSettings::new(Some(file), &environment).unwrap();
        assert!(matches!(settings.credentials, Source::Instance { .. }));
        assert_eq!(settings.tables, Tables::OfCluster("test".to_owned()));
    }
}
