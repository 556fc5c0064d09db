//! The resource that a path names.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// `/apis/<group>/<version>[/namespaces/<namespace>]/<resource>[/<name>[/<subresource>]]`, taken
/// apart. Fields are empty where the path has nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub resource: String,
    pub name: String,
    pub subresource: String,
}

impl Target {
    pub fn parse(segments: &[&str]) -> Option<Self> {
        let decoded: Option<Vec<Cow<'_, str>>> = segments
            .iter()
            .map(|segment| percent_decode_str(segment).decode_utf8().ok())
            .collect();
        let decoded = decoded?;
        let segments: Vec<&str> = decoded.iter().map(AsRef::as_ref).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        // The subresources of a namespace itself look like resources inside it.
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let mut parts = rest.iter().map(|&part| part.to_owned());
        let target = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            resource: parts.next()?,
            name: parts.next().unwrap_or_default(),
            subresource: parts.next().unwrap_or_default(),
        };
        parts.next().is_none().then_some(target)
    }

    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(path: &str) -> Target {
        let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        Target::parse(&segments).unwrap()
    }

    #[test]
    fn a_path_names_group_namespace_resource_and_subresource() {
        let target = parse("/apis/apps/v1/namespaces/a/deployments/web/scale");
        assert_eq!(target.group, "apps");
        assert_eq!(target.namespace.as_deref(), Some("a"));
        assert_eq!(target.resource, "deployments");
        assert_eq!(target.name, "web");
        assert_eq!(target.subresource, "scale");
    }

    #[test]
    fn a_namespace_is_a_resource_and_a_place() {
        assert_eq!(parse("/api/v1/namespaces/a").resource, "namespaces");
        assert_eq!(parse("/api/v1/namespaces/a/status").subresource, "status");
        assert_eq!(parse("/api/v1/namespaces/a/pods").resource, "pods");
    }

    #[test]
    fn names_may_be_encoded() {
        let target = parse("/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode");
        assert_eq!(target.name, "system:node");
    }
}
