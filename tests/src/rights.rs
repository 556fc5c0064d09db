//! Finds rights that a component does not need. The API server's audit log has the requests of the
//! component. One verb after another is removed from its roles, and the server's own authorizer is
//! asked about these requests again. If it allows all of them, the verb is superfluous.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use berth_api::names::NAMESPACE;
use berth_testbed::Builder;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;

use crate::scene::Scene;
use crate::wait::{Seen, wait_for};

/// A group of no API. Once the authorizer allows a request in this group, it has seen the newest
/// role.
const MARK_GROUP: &str = "mark.test";

/// The audit log of a cluster's API server.
#[derive(Debug)]
pub struct Audit {
    directory: PathBuf,
}

/// What a component asked the API server, as far as its rights are concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    group: String,
    /// With the subresource, as rules write it.
    resource: String,
    verb: String,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    user: User,
    verb: String,
    object_ref: Option<ObjectRef>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectRef {
    #[serde(default)]
    api_group: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

impl Audit {
    /// Keeps the log in that directory, with only the requests of ServiceAccounts in Berth's
    /// namespace.
    pub fn of(directory: &Path) -> Result<Self> {
        let rule = json!({"level": "Metadata", "userGroups": [group_of_accounts()]});
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
            "omitStages": ["RequestReceived"], "rules": [rule],
        });
        std::fs::write(directory.join("policy.yaml"), policy.to_string())?;
        let directory = directory.to_owned();
        Ok(Self { directory })
    }

    /// Lets the API server of the cluster keep the log.
    pub fn on<'a>(&self, cluster: Builder<'a>) -> Builder<'a> {
        let file = |name: &str| self.directory.join(name).display().to_string();
        cluster
            .api_flag(&format!("--audit-policy-file={}", file("policy.yaml")))
            .api_flag(&format!("--audit-log-path={}", file("audit.log")))
    }

    /// The requests until now. Call this before components and their roles are removed: a component
    /// may be refused then.
    pub fn asked(&self) -> Result<Asked> {
        let log = std::fs::read_to_string(self.directory.join("audit.log"))?;
        Ok(Asked { log })
    }
}

/// The requests of all accounts.
#[derive(Debug)]
pub struct Asked {
    log: String,
}

impl Asked {
    /// The requests that the account was allowed, and those that it was refused.
    fn requests(&self, account: &str) -> [BTreeSet<Request>; 2] {
        let mut requests = [BTreeSet::new(), BTreeSet::new()];
        for line in self.log.lines() {
            // The last one may be half written.
            let Ok(line) = serde_json::from_str::<Line>(line) else {
                continue;
            };
            if line.user.username != user_of(account) {
                continue;
            }
            let Some(object) = line.object_ref else {
                continue;
            };
            let resource = match object.subresource {
                Some(below) => format!("{}/{below}", object.resource),
                None => object.resource,
            };
            let decision = line.annotations.get("authorization.k8s.io/decision");
            let is_refused = decision.is_some_and(|decision| decision == "forbid");
            requests[usize::from(is_refused)].insert(Request {
                group: object.api_group,
                resource,
                verb: line.verb,
                namespace: object.namespace,
                // The authorizer does not see a name that is only in the body.
                name: object.name.filter(|name| !name.is_empty()),
            });
        }
        requests
    }

    /// Each right of the account that none of its requests needed: `group/resource verb`. The roles
    /// must be in the cluster, and no running component should need them any more.
    pub async fn superfluous(&self, scene: &Scene, account: &str) -> Result<BTreeSet<String>> {
        self.superfluous_of(scene, account, None).await
    }

    /// The same for the roles of one name; the account may have others, too.
    pub async fn superfluous_of(
        &self,
        scene: &Scene,
        account: &str,
        name: Option<&str>,
    ) -> Result<BTreeSet<String>> {
        let [allowed, refused] = self.requests(account);
        anyhow::ensure!(refused.is_empty(), "{account} was refused {refused:#?}");
        anyhow::ensure!(!allowed.is_empty(), "{account} has asked for nothing");
        let mut superfluous = BTreeSet::new();
        let mut roles = roles_of(&scene.client, account).await?;
        roles.retain(|role| name.is_none_or(|name| role.name == name));
        anyhow::ensure!(!roles.is_empty(), "{account} has no role {name:?}");
        for role in roles {
            for cut in cuts(&role.rules) {
                role.put(&scene.client, &cut.rules_left).await?;
                cut.is_seen(scene, account, &role).await?;
                let concerned = allowed.iter().filter(|request| cut.concerns(request));
                if !is_one_refused(&scene.client, account, concerned).await? {
                    superfluous.insert(cut.name());
                }
            }
            role.put(&scene.client, &role.rules).await?;
        }
        Ok(superfluous)
    }
}

/// A role of the account, and where it holds.
struct Held {
    name: String,
    namespace: Option<String>,
    rules: Vec<PolicyRule>,
}

impl Held {
    async fn put(&self, client: &Client, rules: &[PolicyRule]) -> Result<()> {
        let patch = Patch::Merge(json!({"rules": rules}));
        let params = PatchParams::default();
        match &self.namespace {
            None => {
                let api = Api::<ClusterRole>::all(client.clone());
                api.patch(&self.name, &params, &patch).await?;
            }
            Some(namespace) => {
                let api = Api::<Role>::namespaced(client.clone(), namespace);
                api.patch(&self.name, &params, &patch).await?;
            }
        }
        Ok(())
    }
}

/// One verb on one resource, and the rules without it.
struct Cut {
    number: usize,
    group: String,
    resource: String,
    verb: String,
    rules_left: Vec<PolicyRule>,
}

impl Cut {
    fn name(&self) -> String {
        format!("{}/{} {}", self.group, self.resource, self.verb)
    }

    fn concerns(&self, request: &Request) -> bool {
        (&request.group, &request.resource, &request.verb)
            == (&self.group, &self.resource, &self.verb)
    }

    fn mark(&self) -> String {
        format!("mark{}", self.number)
    }

    /// Waits until the authorizer sees the new rules: it lags behind.
    async fn is_seen(&self, scene: &Scene, account: &str, role: &Held) -> Result<()> {
        let mark = Request {
            group: MARK_GROUP.to_owned(),
            resource: self.mark(),
            verb: "get".to_owned(),
            namespace: role.namespace.clone(),
            name: None,
        };
        let what = format!("the server sees {} without {}", role.name, self.name());
        wait_for(scene, &what, async || {
            Ok(if is_allowed(&scene.client, account, &mark).await? {
                Seen::There
            } else {
                Seen::NotYet("not yet".to_owned())
            })
        })
        .await
    }
}

fn cuts(rules: &[PolicyRule]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let groups = rule.api_groups.iter().flatten();
        let targets = groups.flat_map(|group| {
            let resources = rule.resources.iter().flatten();
            resources.map(move |resource| (group, resource))
        });
        for (group, resource) in targets {
            for verb in &rule.verbs {
                let number = cuts.len();
                let mut cut = Cut {
                    number,
                    group: group.clone(),
                    resource: resource.clone(),
                    verb: verb.clone(),
                    rules_left: rules.to_vec(),
                };
                let others = narrowed(rule, |other| other != resource, |_| true);
                let other_verbs = narrowed(rule, |own| own == resource, |own| own != verb);
                let mark = PolicyRule {
                    api_groups: Some(vec![MARK_GROUP.to_owned()]),
                    resources: Some(vec![cut.mark()]),
                    verbs: vec!["get".to_owned()],
                    ..PolicyRule::default()
                };
                let instead = others.into_iter().chain(other_verbs).chain([mark]);
                cut.rules_left.splice(at..=at, instead);
                cuts.push(cut);
            }
        }
    }
    cuts
}

/// `None` when no resource or no verb is left.
fn narrowed(
    rule: &PolicyRule,
    is_resource: impl Fn(&String) -> bool,
    is_verb: impl Fn(&String) -> bool,
) -> Option<PolicyRule> {
    let mut narrowed = rule.clone();
    narrowed.resources.as_mut()?.retain(is_resource);
    narrowed.verbs.retain(is_verb);
    let is_left = narrowed.resources.as_ref().is_some_and(|left| !left.is_empty());
    (is_left && !narrowed.verbs.is_empty()).then_some(narrowed)
}

async fn roles_of(client: &Client, account: &str) -> Result<Vec<Held>> {
    let is_account = |subjects: &Option<Vec<Subject>>| {
        let mut subjects = subjects.iter().flatten();
        subjects.any(|subject| subject.kind == "ServiceAccount" && subject.name == account)
    };
    let mut held = Vec::new();
    let all = ListParams::default();
    for binding in Api::<ClusterRoleBinding>::all(client.clone()).list(&all).await? {
        if is_account(&binding.subjects) {
            held.push(read(client, &binding.role_ref, None).await?);
        }
    }
    for binding in Api::<RoleBinding>::all(client.clone()).list(&all).await? {
        if is_account(&binding.subjects) {
            let namespace = binding.namespace();
            held.push(read(client, &binding.role_ref, namespace).await?);
        }
    }
    anyhow::ensure!(!held.is_empty(), "{account} has no role");
    Ok(held)
}

async fn read(client: &Client, of: &RoleRef, namespace: Option<String>) -> Result<Held> {
    let name = of.name.clone();
    let rules = match &namespace {
        Some(namespace) if of.kind == "Role" => {
            Api::<Role>::namespaced(client.clone(), namespace)
                .get(&name)
                .await?
                .rules
        }
        None => Api::<ClusterRole>::all(client.clone()).get(&name).await?.rules,
        Some(_) => anyhow::bail!("{name}: a ClusterRole in a RoleBinding is not known here"),
    };
    let rules = rules.with_context(|| format!("{name} has no rules"))?;
    Ok(Held {
        name,
        namespace,
        rules,
    })
}

/// Ends at the first one that is refused: a component may have made the same request for each of
/// hundreds of pods.
async fn is_one_refused(
    client: &Client,
    account: &str,
    requests: impl Iterator<Item = &Request>,
) -> Result<bool> {
    for request in requests {
        if !is_allowed(client, account, request).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn is_allowed(client: &Client, account: &str, request: &Request) -> Result<bool> {
    let (resource, subresource) = match request.resource.split_once('/') {
        Some((resource, below)) => (resource, Some(below)),
        None => (request.resource.as_str(), None),
    };
    let attributes = ResourceAttributes {
        group: Some(request.group.clone()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        verb: Some(request.verb.clone()),
        namespace: request.namespace.clone(),
        name: request.name.clone(),
        ..ResourceAttributes::default()
    };
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user_of(account)),
            groups: Some(vec![
                "system:serviceaccounts".to_owned(),
                group_of_accounts(),
                "system:authenticated".to_owned(),
            ]),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

fn user_of(account: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{account}")
}

fn group_of_accounts() -> String {
    format!("system:serviceaccounts:{NAMESPACE}")
}
