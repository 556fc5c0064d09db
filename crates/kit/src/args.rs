//! Flags that every command has, and the rule for all flags: each can be given as `BERTH_<FLAG>` in
//! the environment.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use futures::future::BoxFuture;
use kube::{
    Client, Config,
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::logs::{Filter, Format};

/// What every command takes. Flatten it into the command's own arguments.
#[derive(Clone, Debug, clap::Args)]
pub struct CommonArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub logs: LogArgs,
    /// Serve /healthz, /readyz and /metrics on this address (port 0 picks one); off by default
    #[arg(long, env = "BERTH_METRICS_LISTEN", value_name = "ADDR", global = true)]
    pub metrics_listen: Option<SocketAddr>,
}

/// How much to log, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// Lines for people, or one JSON object per line; both on stderr
    #[arg(long, env = "BERTH_LOG_FORMAT", value_enum, default_value_t, global = true)]
    pub log_format: Format,
    /// A level (error, warn, info, debug, trace), or a filter such as "info,berth_apiserver=debug"
    /// [default: info, or what suits the command]
    #[arg(long, env = "BERTH_LOG_LEVEL", value_name = "FILTER", global = true)]
    pub log_level: Option<Filter>,
}

/// The server ends every watch before this time.
const READ_TIMEOUT: Duration = Duration::from_secs(295);

/// Which cluster to talk to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterArgs {
    /// Kubeconfig of the cluster; without it KUBECONFIG, and without that the service account of
    /// this pod
    #[arg(long, env = "BERTH_KUBECONFIG", value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
}

/// Each error names what was tried. The first source that is given decides: a kubeconfig that can't
/// be read is an error, never a reason to talk to some other cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("kubeconfig {} (from {origin}): {error}", path.display())]
    Kubeconfig {
        path: PathBuf,
        origin: &'static str,
        error: KubeconfigError,
    },
    #[error(
        "no cluster: --kubeconfig is not given, KUBECONFIG is not set, and this process \
         does not run in a pod ({0}); give --kubeconfig FILE"
    )]
    Nowhere(InClusterError),
    #[error("the client for {url}: {error}")]
    Client { url: http::Uri, error: kube::Error },
}

impl ClusterArgs {
    /// A client for the cluster. It has not made a call yet.
    pub fn client(&self) -> BoxFuture<'_, Result<Client, ClusterError>> {
        Box::pin(async move {
            let mut config = self.config(std::env::var_os("KUBECONFIG")).await?;
            // The client must not wait for ever for a server that has vanished. A watch receives
            // something more often than this.
            config.read_timeout.get_or_insert(READ_TIMEOUT);
            let url = config.cluster_url.clone();
            Client::try_from(config).map_err(|error| ClusterError::Client { url, error })
        })
    }

    /// A client without retries, for callers to which "no answer" is an answer, too.
    pub fn client_without_retries(&self) -> BoxFuture<'_, Result<Client, ClusterError>> {
        Box::pin(async move {
            let mut config = self.config(std::env::var_os("KUBECONFIG")).await?;
            config.default_retry = false;
            let url = config.cluster_url.clone();
            Client::try_from(config).map_err(|error| ClusterError::Client { url, error })
        })
    }

    async fn config(&self, kubeconfig: Option<OsString>) -> Result<Config, ClusterError> {
        let (paths, origin) = match (&self.kubeconfig, kubeconfig) {
            (Some(path), _) => (vec![path.clone()], "--kubeconfig"),
            (None, Some(list)) => (named(&list), "KUBECONFIG"),
            (None, None) => (Vec::new(), "KUBECONFIG"),
        };
        let Some(first) = paths.first().cloned() else {
            return Config::incluster().map_err(ClusterError::Nowhere);
        };
        let mut merged = Kubeconfig::default();
        for path in paths {
            merged = Kubeconfig::read_from(&path)
                .and_then(|next| merged.merge(next))
                .map_err(|error| ClusterError::Kubeconfig { path, origin, error })?;
        }
        Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default())
            .await
            .map_err(|error| ClusterError::Kubeconfig {
                path: first,
                origin,
                error,
            })
    }
}

/// KUBECONFIG is a list like PATH. Empty names in it are ignored, as in kubectl.
fn named(list: &OsString) -> Vec<PathBuf> {
    std::env::split_paths(list)
        .filter(|path| !path.as_os_str().is_empty())
        .collect()
}

/// Every long flag of `command` and its subcommands whose environment variable is not
/// `BERTH_<FLAG>`, as `berth up --data-dir`. A binary asserts in a test that there is none.
pub fn flags_without_env(command: &clap::Command) -> Vec<String> {
    let mut found = Vec::new();
    walk(command, command.get_name(), &mut found);
    found
}

fn walk(command: &clap::Command, path: &str, found: &mut Vec<String>) {
    for argument in command.get_arguments() {
        let Some(long) = argument.get_long() else {
            continue;
        };
        let expected = format!("BERTH_{}", long.to_uppercase().replace('-', "_"));
        let asks_only = matches!(long, "help" | "version");
        if !asks_only && argument.get_env() != Some(expected.as_ref()) {
            found.push(format!("{path} --{long}"));
        }
    }
    for subcommand in command.get_subcommands() {
        walk(subcommand, &format!("{path} {}", subcommand.get_name()), found);
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "berth", version)]
    struct Cli {
        #[command(flatten)]
        common: CommonArgs,
    }

    fn kubeconfig(server: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: c, \
             contexts: [{{name: c, context: {{cluster: c}}}}], \
             clusters: [{{name: c, cluster: {{server: '{server}'}}}}]}}"
        )
    }

    fn from_flag(path: impl Into<PathBuf>) -> ClusterArgs {
        ClusterArgs {
            kubeconfig: Some(path.into()),
        }
    }

    #[test]
    fn every_common_flag_has_its_environment_variable() {
        assert_eq!(flags_without_env(&Cli::command()), [""; 0]);
    }

    #[test]
    fn subcommand_flags_without_their_berth_variable_are_found() {
        let up = clap::Command::new("up")
            .arg(clap::Arg::new("nodes").long("nodes"))
            .arg(clap::Arg::new("data").long("data-dir").env("DATA_DIR"))
            .arg(clap::Arg::new("api").long("api-listen").env("BERTH_API_LISTEN"))
            .arg(clap::Arg::new("name"));
        let berth = clap::Command::new("berth").subcommand(up);
        assert_eq!(flags_without_env(&berth), ["berth up --nodes", "berth up --data-dir"]);
    }

    #[test]
    fn by_default_text_at_info_and_no_metrics() {
        let common = Cli::try_parse_from(["berth"]).unwrap().common;
        assert_eq!(common.logs.log_format, Format::Text);
        assert_eq!(common.logs.log_level, None);
        assert_eq!(Filter::default().to_string(), "info");
        assert_eq!(common.metrics_listen, None);
    }

    #[test]
    fn a_bad_filter_is_refused_with_the_flag_that_has_it() {
        let error = Cli::try_parse_from(["berth", "--log-level", "info,kube=loud"]).unwrap_err();
        assert!(error.to_string().contains("--log-level"), "{error}");
    }

    #[tokio::test]
    async fn the_flag_comes_before_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        let (flag, env) = (dir.path().join("flag"), dir.path().join("env"));
        std::fs::write(&flag, kubeconfig("https://flag.test")).unwrap();
        std::fs::write(&env, kubeconfig("https://env.test")).unwrap();

        let config = from_flag(&flag).config(Some(env.clone().into())).await.unwrap();
        assert_eq!(config.cluster_url.host(), Some("flag.test"));
        let config = ClusterArgs::default().config(Some(env.into())).await.unwrap();
        assert_eq!(config.cluster_url.host(), Some("env.test"));
    }

    #[tokio::test]
    async fn an_unreadable_kubeconfig_is_named_and_has_no_fallback() {
        let dir = tempfile::tempdir().unwrap();
        let (missing, env) = (dir.path().join("missing"), dir.path().join("env"));
        std::fs::write(&env, kubeconfig("https://env.test")).unwrap();

        let error = from_flag(&missing)
            .config(Some(env.into()))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("--kubeconfig"), "{error}");
        assert!(error.contains(missing.to_str().unwrap()), "{error}");
    }

    #[tokio::test]
    async fn with_nothing_given_the_error_names_all_that_was_tried() {
        for unset in [None, Some(OsString::new())] {
            let error = ClusterArgs::default().config(unset).await.unwrap_err().to_string();
            for tried in ["--kubeconfig", "KUBECONFIG", "in a pod"] {
                assert!(error.contains(tried), "{error}");
            }
        }
    }
}
