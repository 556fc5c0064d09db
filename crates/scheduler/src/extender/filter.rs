//! The verbs that only read: filter, prioritize and preempt. Pure, over the accounting.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::{
    Args, Failed, FilterResult, FilteredNodes, HostPriority, MetaPod, MetaVictims, NamedNode,
    NodeName, Pod, PreemptionArgs, PreemptionResult,
};
use crate::accounting::{Accounting, Refusal};

/// A request that kube-scheduler would never send. It changes nothing.
#[derive(Debug, thiserror::Error)]
pub enum BadRequest {
    #[error("the body can't be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the body can't be read: it is not a JSON object")]
    NoObject,
    #[error("Pod: is null or missing: send the pod that is to be placed")]
    NoPod,
    #[error(
        "NodeNames and Nodes: both are null or missing: send one of them, NodeNames \
         with nodeCacheCapable: true"
    )]
    NoNodes,
    #[error("Nodes.items[{index}]: has no metadata.name")]
    NamelessNode { index: usize },
    #[error("{field}: is empty or missing")]
    Empty { field: &'static str },
}

/// Accepts objects only: serde would read a list of values, too.
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadRequest> {
    match body.trim_ascii_start().first() {
        Some(b'{') => Ok(serde_json::from_slice(body)?),
        _ => Err(BadRequest::NoObject),
    }
}

/// The nodes of a request, in the form in which the answer returns them.
enum Candidates<'a> {
    Names(&'a [NodeName<'a>]),
    Whole(Vec<(Cow<'a, str>, &'a RawValue)>),
}

impl<'a> Candidates<'a> {
    fn of(args: &'a Args<'a>) -> Result<Self, BadRequest> {
        if let Some(names) = &args.node_names {
            return Ok(Self::Names(names));
        }
        let nodes = args.nodes.as_ref().ok_or(BadRequest::NoNodes)?;
        let items = nodes.items.iter().flatten().enumerate();
        let named = items.map(|(index, item)| {
            let node: NamedNode<'a> = serde_json::from_str(item.get())?;
            match node.metadata.name {
                name if name.is_empty() => Err(BadRequest::NamelessNode { index }),
                name => Ok((name, *item)),
            }
        });
        Ok(Self::Whole(named.collect::<Result<_, _>>()?))
    }

    fn names(&self) -> impl Iterator<Item = &Cow<'a, str>> {
        let (names, whole) = match self {
            Self::Names(names) => (*names, [].as_slice()),
            Self::Whole(whole) => ([].as_slice(), whole.as_slice()),
        };
        let names = names.iter().map(|NodeName(name)| name);
        names.chain(whole.iter().map(|(name, _)| name))
    }
}

/// The result of a filter call, for metrics and for waking nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub refused: BTreeMap<&'static str, u64>,
}

/// The answer as JSON.
pub fn filter(accounting: &mut Accounting, body: &[u8]) -> Result<(Vec<u8>, Tally), BadRequest> {
    let args: Args<'_> = read(body)?;
    let pod = args.pod.as_ref().ok_or(BadRequest::NoPod)?;
    let candidates = Candidates::of(&args)?;
    let mut check = NodeCheck::new(accounting, pod);
    let mut failed = Vec::new();
    let mut passes = Vec::with_capacity(candidates.names().count());
    for name in candidates.names() {
        let refusal = check.check(name);
        passes.push(refusal.is_none());
        failed.extend(refusal.map(|reason| Failed { node: name, reason }));
    }
    let tally = check.tally;
    for Failed { node, .. } in &failed {
        accounting.refused(node);
    }
    let mut result = FilterResult {
        failed_and_unresolvable_nodes: failed,
        ..FilterResult::default()
    };
    match &candidates {
        Candidates::Names(names) => {
            let passed = names.iter().zip(&passes).filter(|(_, passes)| **passes);
            result.node_names = Some(passed.map(|(NodeName(name), _)| &**name).collect());
        }
        Candidates::Whole(whole) => {
            let passed = whole.iter().zip(&passes).filter(|(_, passes)| **passes);
            result.nodes = Some(FilteredNodes {
                metadata: BTreeMap::new(),
                items: passed.map(|((_, node), _)| *node).collect(),
            });
        }
    }
    Ok((serde_json::to_vec(&result)?, tally))
}

/// With up to this many nodes, each is listed with its score.
const MAX_LISTED: usize = 64;

/// Scores each node by how many addresses it has at hand. Returns the answer as JSON.
///
/// Of more nodes only those above the lowest score are listed, with the difference. kube-scheduler
/// takes 0 for the others, and only differences count: it need not read 500 entries for every pod.
pub fn prioritize(accounting: &Accounting, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
    let args: Args<'_> = read(body)?;
    let pod = args.pod.as_ref().ok_or(BadRequest::NoPod)?;
    let candidates = Candidates::of(&args)?;
    let score = |name: &Cow<'_, str>| match pod.spec.host_network {
        true => 0,
        false => accounting.score(name),
    };
    let mut scored: Vec<HostPriority<'_>> = candidates
        .names()
        .map(|name| HostPriority {
            host: Cow::Borrowed(name),
            score: score(name),
        })
        .collect();
    if scored.len() > MAX_LISTED {
        let least = scored.iter().map(|scored| scored.score).min().unwrap_or_default();
        scored.retain(|scored| scored.score > least);
        scored.iter_mut().for_each(|scored| scored.score -= least);
    }
    Ok(serde_json::to_vec(&scored)?)
}

/// Keeps the nodes that would have an IP for the pod once their victims are gone. kube-scheduler
/// calls this for pods that lack another resource; it never evicts for an IP alone.
pub fn preempt(accounting: &Accounting, body: &[u8]) -> Result<Vec<u8>, BadRequest> {
    let args: PreemptionArgs<'_> = read(body)?;
    let pod = args.pod.as_ref().ok_or(BadRequest::NoPod)?;
    let mut offered = args.node_name_to_meta_victims.unwrap_or_default();
    for (node, victims) in args.node_name_to_victims.into_iter().flatten() {
        let pods = victims.pods.unwrap_or_default().into_iter();
        let pods = pods.map(|pod| MetaPod {
            uid: pod.metadata.uid.into_owned(),
        });
        let victims = MetaVictims {
            pods: Some(pods.collect()),
            num_pdb_violations: victims.num_pdb_violations,
        };
        offered.insert(node.into_owned(), victims);
    }
    offered.retain(|node, victims| {
        let uids = victims.pods.iter().flatten().map(|pod| pod.uid.as_str());
        pod.spec.host_network || accounting.fits_without(node, &pod.metadata.uid, uids)
    });
    Ok(serde_json::to_vec(&PreemptionResult {
        node_name_to_meta_victims: offered,
    })?)
}

/// Checks the nodes of one request. Nodes with the same reason share its text.
struct NodeCheck<'a> {
    accounting: &'a Accounting,
    /// The node where the pod already counts.
    own: Option<&'a Arc<str>>,
    needs_ip: bool,
    texts: HashMap<Refusal, Arc<str>>,
    tally: Tally,
}

impl<'a> NodeCheck<'a> {
    fn new(accounting: &'a Accounting, pod: &'a Pod<'a>) -> Self {
        Self {
            accounting,
            own: accounting.counted_at(&pod.metadata.uid),
            needs_ip: !pod.spec.host_network,
            texts: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// Why the node does not take the pod.
    fn check(&mut self, node: &str) -> Option<Arc<str>> {
        let free = self.needs_ip.then(|| self.accounting.free_beside(node, self.own));
        let Some(Err(refusal)) = free else {
            self.tally.passed += 1;
            return None;
        };
        *self.tally.refused.entry(refusal.category()).or_default() += 1;
        let text = self.texts.entry(refusal);
        Some(text.or_insert_with_key(|refusal| refusal.to_string().into()).clone())
    }
}
