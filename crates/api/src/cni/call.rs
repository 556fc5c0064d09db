//! The call of a runtime: the environment of the plugin's process.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CniError, Code};

/// An interface of a container: ADD attaches it, DEL detaches it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Attachment {
    pub container: String,
    pub interface: String,
}

impl Attachment {
    /// Checks both names.
    pub fn new(container: &str, interface: &str) -> Result<Self, InvalidAttachment> {
        let attachment = Self {
            container: container.to_owned(),
            interface: interface.to_owned(),
        };
        attachment.validate().map(|()| attachment)
    }

    /// Checks an attachment that came over a wire.
    pub fn validate(&self) -> Result<(), InvalidAttachment> {
        if !is_name(&self.container) || self.container.len() > CONTAINER_LENGTH {
            return Err(InvalidAttachment::Container(self.container.clone()));
        }
        if !is_interface(&self.interface) {
            return Err(InvalidAttachment::Interface(self.interface.clone()));
        }
        Ok(())
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.container, self.interface)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAttachment {
    #[error(
        "is {0:?}: use at most {CONTAINER_LENGTH} letters, digits, '_', '.' and '-', \
         and begin with a letter or a digit"
    )]
    Container(String),
    #[error(
        "is {0:?}: use at most {INTERFACE_LENGTH} characters, without '/', ':' and \
         white space, and neither '.' nor '..'"
    )]
    Interface(String),
}

/// The pod in `CNI_ARGS`, as a container runtime names it. A missing part is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct PodRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

impl PodRef {
    /// Checks a pod that came over a wire: each part must be a name in Kubernetes, or empty.
    pub fn is_valid(&self) -> bool {
        let parts = [&self.namespace, &self.name, &self.uid];
        parts
            .into_iter()
            .all(|part| part.is_empty() || (part.len() <= NAME_LENGTH && is_name(part)))
    }
}

/// A container id is a part of a file name in the release queue, so it has a limit.
const CONTAINER_LENGTH: usize = 200;
/// No name in Kubernetes is longer.
const NAME_LENGTH: usize = 253;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    Add {
        attachment: Attachment,
        netns: String,
        pod: PodRef,
    },
    Check {
        attachment: Attachment,
        netns: String,
        pod: PodRef,
    },
    /// The network namespace may be gone by then, and a DEL does without its path. It does not need
    /// the pod, either.
    Del {
        attachment: Attachment,
        netns: Option<String>,
    },
    Gc,
    Status,
    Version,
}

/// The kernel's limit for the name of an interface, without the final zero byte.
const INTERFACE_LENGTH: usize = 15;

impl Call {
    /// `variable` looks up a variable of the environment.
    pub fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, CniError> {
        let environment = Environment(variable);
        let command = environment.need("CNI_COMMAND")?;
        match command.as_str() {
            "ADD" => Ok(Self::Add {
                attachment: environment.attachment()?,
                netns: environment.need("CNI_NETNS")?,
                pod: environment.pod()?,
            }),
            "CHECK" => Ok(Self::Check {
                attachment: environment.attachment()?,
                netns: environment.need("CNI_NETNS")?,
                pod: environment.pod()?,
            }),
            "DEL" => Ok(Self::Del {
                attachment: environment.attachment()?,
                netns: environment.find("CNI_NETNS")?,
            }),
            "GC" => environment.need("CNI_PATH").map(|_| Self::Gc),
            "STATUS" => environment.need("CNI_PATH").map(|_| Self::Status),
            "VERSION" => Ok(Self::Version),
            other => Err(invalid(format!(
                "CNI_COMMAND is {other:?}: use ADD, DEL, CHECK, GC, STATUS or VERSION"
            ))),
        }
    }
}

struct Environment<F>(F);

impl<F: Fn(&str) -> Option<OsString>> Environment<F> {
    /// An empty variable counts as unset.
    fn find(&self, name: &str) -> Result<Option<String>, CniError> {
        let found = (self.0)(name).filter(|value| !value.is_empty());
        let text = found
            .map(|value| value.into_string().map_err(|_| invalid(format!("{name} is not UTF-8"))));
        text.transpose()
    }

    fn need(&self, name: &str) -> Result<String, CniError> {
        let found = self.find(name)?;
        found.ok_or_else(|| invalid(format!("{name} is not set: it is needed for this command")))
    }

    fn attachment(&self) -> Result<Attachment, CniError> {
        let (container, interface) = (self.need("CNI_CONTAINERID")?, self.need("CNI_IFNAME")?);
        Attachment::new(&container, &interface).map_err(|error| {
            let variable = match error {
                InvalidAttachment::Container(_) => "CNI_CONTAINERID",
                InvalidAttachment::Interface(_) => "CNI_IFNAME",
            };
            invalid(format!("{variable} {error}"))
        })
    }

    /// Ignores unknown keys. A pair without `=` is an error.
    fn pod(&self) -> Result<PodRef, CniError> {
        let mut pod = PodRef::default();
        for pair in self.find("CNI_ARGS")?.unwrap_or_default().split(';') {
            if pair.is_empty() {
                continue;
            }
            let Some((name, value)) = pair.split_once('=') else {
                return Err(invalid(format!(
                    "CNI_ARGS has {pair:?}: write it as NAME=VALUE;NAME=VALUE"
                )));
            };
            if name.starts_with("K8S_POD_") && !value.is_empty() && !is_name(value) {
                return Err(invalid(format!(
                    "CNI_ARGS has {name}={value:?}, which is not a name in Kubernetes"
                )));
            }
            match name {
                "K8S_POD_NAMESPACE" => value.clone_into(&mut pod.namespace),
                "K8S_POD_NAME" => value.clone_into(&mut pod.name),
                "K8S_POD_UID" => value.clone_into(&mut pod.uid),
                _ => {}
            }
        }
        Ok(pod)
    }
}

/// Whether the text is a name of a container, a network or a Kubernetes object. As a file name, it
/// cannot leave its directory.
pub fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && text.bytes().all(allowed)
}

fn is_interface(text: &str) -> bool {
    let forbidden =
        |letter: char| matches!(letter, '/' | ':') || letter.is_whitespace() || letter.is_control();
    (1..=INTERFACE_LENGTH).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.contains(forbidden)
}

fn invalid(msg: String) -> CniError {
    CniError::new(Code::InvalidEnvironment, msg)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Call, CniError> {
        Call::read(|name| {
            let found = variables.iter().rfind(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    const ADD: &[(&str, &str)] = &[
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "8f0c.2-a_b"),
        ("CNI_NETNS", "/run/netns/cni-1"),
        ("CNI_IFNAME", "eth0"),
        (
            "CNI_ARGS",
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=7d44",
        ),
        ("CNI_PATH", "/opt/cni/bin"),
    ];

    fn but(changes: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [ADD, changes].concat()
    }

    #[test]
    fn an_add_names_its_attachment_and_its_pod() {
        let Call::Add {
            attachment,
            netns,
            pod,
        } = read(ADD).unwrap()
        else {
            panic!("no ADD");
        };
        assert_eq!(
            (attachment.container.as_str(), attachment.interface.as_str()),
            ("8f0c.2-a_b", "eth0")
        );
        assert_eq!(netns, "/run/netns/cni-1");
        assert_eq!(
            (pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()),
            ("shop", "web-1", "7d44")
        );
    }

    #[test]
    fn a_del_needs_no_netns_and_gc_and_status_no_attachment() {
        let del = read(&but(&[("CNI_COMMAND", "DEL"), ("CNI_NETNS", "")])).unwrap();
        assert!(matches!(del, Call::Del { netns: None, .. }));
        // A DEL does not read the pod, so a wrong name of it is no error.
        let del = read(&but(&[("CNI_COMMAND", "DEL"), ("CNI_ARGS", "K8S_POD_NAME=a b;c")]));
        assert!(matches!(del, Ok(Call::Del { .. })), "{del:?}");
        assert_eq!(read(&[("CNI_COMMAND", "GC"), ("CNI_PATH", "/x")]), Ok(Call::Gc));
        assert_eq!(read(&[("CNI_COMMAND", "STATUS"), ("CNI_PATH", "/x")]), Ok(Call::Status));
        assert_eq!(read(&[("CNI_COMMAND", "VERSION")]), Ok(Call::Version));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named_with_code_4() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("CNI_COMMAND", "")], "CNI_COMMAND"),
            (&[("CNI_COMMAND", "add")], "CNI_COMMAND"),
            (&[("CNI_CONTAINERID", "")], "CNI_CONTAINERID"),
            (&[("CNI_CONTAINERID", "../../etc/passwd")], "CNI_CONTAINERID"),
            (&[("CNI_CONTAINERID", ".hidden")], "CNI_CONTAINERID"),
            (&[("CNI_CONTAINERID", "a b")], "CNI_CONTAINERID"),
            (&[("CNI_NETNS", "")], "CNI_NETNS"),
            (&[("CNI_IFNAME", "")], "CNI_IFNAME"),
            (&[("CNI_IFNAME", "sixteen-letters!")], "CNI_IFNAME"),
            (&[("CNI_IFNAME", "a/b")], "CNI_IFNAME"),
            (&[("CNI_IFNAME", "a:b")], "CNI_IFNAME"),
            (&[("CNI_IFNAME", "a b")], "CNI_IFNAME"),
            (&[("CNI_IFNAME", "..")], "CNI_IFNAME"),
            (&[("CNI_ARGS", "K8S_POD_NAME")], "CNI_ARGS"),
            (&[("CNI_ARGS", "K8S_POD_NAME=a b")], "CNI_ARGS"),
            (&[("CNI_ARGS", "K8S_POD_NAMESPACE=../etc")], "CNI_ARGS"),
            (&[("CNI_COMMAND", "GC"), ("CNI_PATH", "")], "CNI_PATH"),
        ];
        for (changes, named) in cases {
            let variables = [ADD, changes].concat();
            let failure = read(&variables).unwrap_err();
            assert_eq!(failure.code.number(), 4, "{changes:?}");
            assert!(failure.msg.starts_with(named), "{}", failure.msg);
        }
        let failure = Call::read(|_| Some(OsString::from_vec(vec![0xff]))).unwrap_err();
        assert_eq!(failure.msg, "CNI_COMMAND is not UTF-8");
    }
}
