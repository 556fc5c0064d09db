//! The configuration of a network: the plugin's stdin.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Map, Value};

use super::call::is_name;
use super::outcome::{Route, cidr};
use super::{Attachment, Call, CniError, Code, Version};
use crate::names::{DEFAULT_QUEUE_DIR, DEFAULT_SOCKET};

/// A larger conf is refused.
pub const MAX_CONF_BYTES: usize = 1 << 20;

/// A conf that is at least a JSON object. Its version can be read even if the rest is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Document(Map<String, Value>);

impl Document {
    pub fn read(stdin: &[u8]) -> Result<Self, CniError> {
        if stdin.len() > MAX_CONF_BYTES {
            return Err(undecodable(format!("the conf is longer than {MAX_CONF_BYTES} bytes")));
        }
        let whole: Value = serde_json::from_slice(stdin)
            .map_err(|error| undecodable(format!("the conf is not JSON: {error}")))?;
        match whole {
            Value::Object(whole) => Ok(Self(whole)),
            _ => Err(undecodable("the conf is not a JSON object".to_owned())),
        }
    }

    pub fn version(&self) -> Result<Version, CniError> {
        // A conf without a version is 0.2.0. It is not supported: its answers had another shape.
        let asked =
            text(&self.0, "cniVersion", "cniVersion")?.unwrap_or_else(|| "0.2.0".to_owned());
        Version::parse(&asked).ok_or_else(|| {
            let known = Version::ALL.map(Version::as_str).join(", ");
            let msg = format!("cniVersion {asked} is not supported: use one of {known}");
            CniError::new(Code::IncompatibleVersion, msg)
        })
    }
}

/// Where a conf has the plugin's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under `ipam`, for a plugin that another one delegates to.
    Ipam,
    /// Beside `name` and `type`, for a main plugin, which also reads `mtu` there.
    Top,
}

/// How much of a conf a command needs. Errors elsewhere do not fail the command: a pod must be
/// deletable even if somebody broke the conf after its ADD, and a GC must still find leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// All of it must be valid: an ADD applies it, a CHECK compares with it, a STATUS reports on
    /// it.
    All,
    /// For a DEL: the agent's socket, the timeout and the release queue.
    Release,
    /// For a GC: the agent's socket, the timeout, the network's name and its valid attachments.
    Collect,
}

impl Need {
    pub fn of(call: &Call) -> Self {
        match call {
            Call::Del { .. } => Self::Release,
            Call::Gc => Self::Collect,
            Call::Add { .. } | Call::Check { .. } | Call::Status | Call::Version => Self::All,
        }
    }
}

/// The part of a conf that our plugins use.
#[derive(Clone, Debug, PartialEq)]
pub struct Conf {
    pub version: Version,
    /// The network's name. Empty for a DEL, which does not need it.
    pub name: String,
    pub settings: Settings,
    pub mtu: Option<u32>,
    /// The pod gets exactly these addresses, or the ADD fails: `ips` of `runtimeConfig` and of
    /// `args.cni`. If empty, any addresses.
    pub desired: Vec<IpAddr>,
    /// For the result of an IPAM plugin.
    pub routes: Vec<Route>,
    /// `prevResult`: the result of an earlier plugin of the chain, or for a CHECK that of the ADD.
    pub previous: Option<Value>,
    /// For a GC: the attachments that still exist. `None` if the runtime does not list them.
    pub valid: Option<Vec<Attachment>>,
}

/// How to call the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub socket: String,
    pub queue_dir: String,
    /// The limit for a whole call.
    pub timeout: Duration,
    /// How much longer an ADD may wait for an address to come free.
    pub wait: Duration,
    /// How long an ADD waits for an agent that is away, for example during an update.
    pub reconnect: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            socket: DEFAULT_SOCKET.to_owned(),
            queue_dir: DEFAULT_QUEUE_DIR.to_owned(),
            timeout: Duration::from_secs(5),
            wait: Duration::ZERO,
            reconnect: Duration::ZERO,
        }
    }
}

impl Conf {
    /// A field that is not needed has its default, whatever the document says.
    pub fn read(document: &Document, place: Place, need: Need) -> Result<Self, CniError> {
        let whole = &document.0;
        let conf = Self {
            version: document.version()?,
            name: String::new(),
            settings: Settings::default(),
            mtu: None,
            desired: Vec::new(),
            routes: Vec::new(),
            previous: None,
            valid: None,
        };
        match need {
            Need::Release => {
                let settings = settings(whole, place, need)?;
                Ok(Self { settings, ..conf })
            }
            Need::Collect => Ok(Self {
                name: name(whole)?,
                settings: settings(whole, place, need)?,
                valid: valid_attachments(whole)?,
                ..conf
            }),
            Need::All => conf.read_all(whole, place),
        }
    }

    fn read_all(self, whole: &Map<String, Value>, place: Place) -> Result<Self, CniError> {
        let name = name(whole)?;
        let ipam = ipam(whole)?;
        let settings = settings(whole, place, Need::All)?;
        let (mtu, routes) = match place {
            Place::Ipam => (None, routes(ipam)?),
            Place::Top if ipam.is_empty() => (mtu(whole)?, Vec::new()),
            // Our main plugin would ignore the field, and the author of the conf would not notice.
            Place::Top => {
                let msg = format!(
                    "ipam is {}: this plugin gets its addresses from Berth's agent, leave it out",
                    Value::Object(ipam.clone())
                );
                return Err(CniError::new(Code::UnsupportedField, msg));
            }
        };
        Ok(Self {
            name,
            settings,
            mtu,
            desired: desired(whole)?,
            routes,
            previous: whole.get("prevResult").filter(|previous| !previous.is_null()).cloned(),
            valid: valid_attachments(whole)?,
            ..self
        })
    }
}

fn name(whole: &Map<String, Value>) -> Result<String, CniError> {
    let name = text(whole, "name", "name")?.unwrap_or_default();
    if !is_name(&name) {
        return Err(invalid(format!(
            "name is {name:?}: use letters, digits, '_', '.' and '-', and begin with a \
             letter or a digit"
        )));
    }
    Ok(name)
}

fn ipam(whole: &Map<String, Value>) -> Result<&Map<String, Value>, CniError> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match whole.get("ipam") {
        None | Some(Value::Null) => Ok(&NONE),
        Some(Value::Object(ipam)) => Ok(ipam),
        Some(_) => Err(invalid("ipam is not an object".to_owned())),
    }
}

fn settings(whole: &Map<String, Value>, place: Place, need: Need) -> Result<Settings, CniError> {
    match place {
        Place::Ipam => Settings::read(ipam(whole)?, "ipam.", need),
        Place::Top => Settings::read(whole, "", need),
    }
}

impl Settings {
    /// `at` is the prefix of fields' names in messages.
    fn read(map: &Map<String, Value>, at: &str, need: Need) -> Result<Self, CniError> {
        /// The kernel's limit for a socket's path.
        const SOCKET_LENGTH: usize = 107;
        let default = Self::default();
        let socket = path(map, "socket", at)?.unwrap_or(default.socket);
        if socket.len() > SOCKET_LENGTH {
            return Err(invalid(format!(
                "{at}socket is {socket:?}: a socket's path has at most {SOCKET_LENGTH} bytes"
            )));
        }
        let timeout = duration(map, "timeout", at)?.unwrap_or(default.timeout);
        if timeout.is_zero() {
            return Err(invalid(format!(
                "{at}timeout is 0: no call can be that quick, write it like 5s or 500ms"
            )));
        }
        // A GC queues nothing, and only an ADD waits for an address.
        let queue_dir = match need {
            Need::Collect => None,
            Need::All | Need::Release => path(map, "queueDir", at)?,
        };
        let (wait, reconnect) = match need {
            Need::All => (duration(map, "wait", at)?, duration(map, "reconnect", at)?),
            Need::Release | Need::Collect => (None, None),
        };
        Ok(Self {
            socket,
            queue_dir: queue_dir.unwrap_or(default.queue_dir),
            timeout,
            wait: wait.unwrap_or(default.wait),
            reconnect: reconnect.unwrap_or(default.reconnect),
        })
    }
}

/// The path must be absolute: a plugin is started in any directory.
fn path(map: &Map<String, Value>, field: &str, at: &str) -> Result<Option<String>, CniError> {
    let found = text(map, field, &format!("{at}{field}"))?;
    match found {
        Some(path) if !path.starts_with('/') || path.contains('\0') => {
            Err(invalid(format!("{at}{field} is {path:?}: use an absolute path")))
        }
        found => Ok(found),
    }
}

/// Seconds or milliseconds: `2s`, `500ms`.
fn duration(map: &Map<String, Value>, field: &str, at: &str) -> Result<Option<Duration>, CniError> {
    const MAX: Duration = Duration::from_secs(60);
    let Some(asked) = text(map, field, &format!("{at}{field}"))? else {
        return Ok(None);
    };
    let parsed = match (asked.strip_suffix("ms"), asked.strip_suffix('s')) {
        (Some(number), _) => number.parse().ok().map(Duration::from_millis),
        (None, Some(number)) => number.parse().ok().map(Duration::from_secs),
        (None, None) => None,
    };
    parsed.filter(|wait| *wait <= MAX).map(Some).ok_or_else(|| {
        invalid(format!(
            "{at}{field} is {asked:?}: write it like 2s or 500ms, at most {} s",
            MAX.as_secs()
        ))
    })
}

fn mtu(whole: &Map<String, Value>) -> Result<Option<u32>, CniError> {
    match whole.get("mtu") {
        None | Some(Value::Null) => Ok(None),
        Some(mtu) => {
            let number = mtu.as_u64().and_then(|mtu| u32::try_from(mtu).ok());
            let number = number.filter(|mtu| (68..=65_535).contains(mtu));
            let wrong =
                || invalid(format!("mtu is {mtu}: use a number from 68 to 65535, or leave it out"));
            number.map(Some).ok_or_else(wrong)
        }
    }
}

fn routes(ipam: &Map<String, Value>) -> Result<Vec<Route>, CniError> {
    let wrong = |value: &Value| {
        invalid(format!(
            "ipam.routes has {value}: write each as {{\"dst\": \"10.0.0.0/8\", \"gw\": \
             \"10.64.0.1\"}}, gw may be left out"
        ))
    };
    let list = match ipam.get("routes") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong(other)),
    };
    let route = |value: &Value| Route::read_strictly(value).ok_or_else(|| wrong(value));
    list.iter().map(route).collect()
}

/// Runtimes write addresses with or without a prefix length.
fn desired(whole: &Map<String, Value>) -> Result<Vec<IpAddr>, CniError> {
    let places = [
        (
            "runtimeConfig.ips",
            whole.get("runtimeConfig").map(|config| &config["ips"]),
        ),
        ("args.cni.ips", whole.get("args").map(|args| &args["cni"]["ips"])),
    ];
    let mut desired = Vec::new();
    for (field, found) in places {
        let list = match found {
            None | Some(Value::Null) => continue,
            Some(Value::Array(list)) => list,
            Some(_) => return Err(invalid(format!("{field} is not a list"))),
        };
        for value in list {
            let text = value.as_str().unwrap_or_default();
            let address = text.parse().ok().or_else(|| cidr(text).map(|(address, _)| address));
            let address = address
                .ok_or_else(|| invalid(format!("{field} has {value}, which is not an address")))?;
            if !desired.contains(&address) {
                desired.push(address);
            }
        }
    }
    Ok(desired)
}

fn valid_attachments(whole: &Map<String, Value>) -> Result<Option<Vec<Attachment>>, CniError> {
    // The first is the name in the specification. The second is from an earlier text of it, and
    // some versions of libcni send it.
    let fields = ["cni.dev/valid-attachments", "cni.dev/attachments"];
    let found = fields
        .into_iter()
        .find_map(|field| Some((field, whole.get(field).filter(|list| !list.is_null())?)));
    let Some((field, found)) = found else {
        return Ok(None);
    };
    let list = found
        .as_array()
        .ok_or_else(|| invalid(format!("{field} is not a list")))?;
    let attachment = |(at, one): (usize, &Value)| {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        // A wrong entry must not be skipped: its attachment would count as gone.
        Attachment::new(text("containerID"), text("ifname")).map_err(|error| {
            invalid(format!(
                "{field}[{at}] has a wrong containerID or ifname: {one}: one of them {error}"
            ))
        })
    };
    list.iter()
        .enumerate()
        .map(attachment)
        .collect::<Result<_, _>>()
        .map(Some)
}

fn text(map: &Map<String, Value>, field: &str, path: &str) -> Result<Option<String>, CniError> {
    match map.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(invalid(format!("{path} is {other}: it must be a string"))),
    }
}

fn invalid(msg: String) -> CniError {
    CniError::new(Code::InvalidConf, msg)
}

fn undecodable(msg: String) -> CniError {
    CniError::new(Code::Undecodable, msg)
}

#[cfg(test)]
mod tests;
