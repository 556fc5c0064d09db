//! A network in memory that remembers what it was asked, and refuses or waits when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use berth_cluster::{PodNetwork, PodNetworkError, Sandbox};
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

#[derive(Debug)]
pub struct Switch {
    state: Mutex<State>,
    held: watch::Sender<bool>,
    ready: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    given: u32,
    /// By node and sandbox.
    attached: BTreeMap<(String, String), IpAddr>,
    refused: BTreeMap<&'static str, &'static str>,
    under_way: BTreeSet<String>,
    /// What was asked, and of which sandbox.
    calls: Vec<(&'static str, String)>,
    wrong: Vec<String>,
}

impl Switch {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            held: watch::channel(false).0,
            ready: watch::channel(true).0,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn refuse(&self, call: &'static str, why: &'static str) {
        self.state().refused.insert(call, why);
    }

    pub fn serve(&self, call: &'static str) {
        self.state().refused.remove(call);
    }

    pub fn set_ready(&self, ready: bool) {
        self.ready.send_replace(ready);
    }

    pub fn hold_attaching(&self) {
        self.held.send_replace(true);
    }

    pub fn go_on(&self) {
        self.held.send_replace(false);
    }

    pub fn under_way(&self) -> usize {
        self.state().under_way.len()
    }

    pub fn count(&self, call: &str) -> usize {
        self.state().calls.iter().filter(|(made, _)| *made == call).count()
    }

    pub fn addresses(&self) -> BTreeSet<String> {
        self.state().attached.values().map(ToString::to_string).collect()
    }

    pub fn addresses_on(&self, node: &str) -> BTreeSet<String> {
        let state = self.state();
        let there = state.attached.iter().filter(|((on, _), _)| on == node);
        there.map(|(_, address)| address.to_string()).collect()
    }

    /// Never two at once about one pod, and none attached after its end.
    pub fn calls_were_in_order(&self) {
        let state = self.state();
        assert!(state.wrong.is_empty(), "{:?}", state.wrong);
        let mut ended = BTreeSet::new();
        for (call, sandbox) in &state.calls {
            match *call {
                "detach" => drop(ended.insert(sandbox)),
                _ => assert!(!ended.contains(sandbox), "{call} of {sandbox} after its end"),
            }
        }
    }

    fn begin(&self, call: &'static str, sandbox: &str) -> Result<(), PodNetworkError> {
        let mut state = self.state();
        state.calls.push((call, sandbox.to_owned()));
        if !state.under_way.insert(sandbox.to_owned()) {
            state
                .wrong
                .push(format!("{call} of {sandbox} while another call is under way"));
        }
        match state.refused.get(call).copied() {
            Some(why) => {
                state.under_way.remove(sandbox);
                Err(PodNetworkError(why.to_owned()))
            }
            None => Ok(()),
        }
    }
}

impl PodNetwork for Switch {
    fn ready<'a>(&'a self, _node: &'a str) -> BoxFuture<'a, ()> {
        async move {
            let mut ready = self.ready.subscribe();
            drop(ready.wait_for(|ready| *ready).await);
        }
        .boxed()
    }

    fn attach<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        _wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, PodNetworkError>> {
        async move {
            self.begin("attach", &sandbox.id)?;
            let mut held = self.held.subscribe();
            drop(held.wait_for(|held| !held).await);
            tokio::time::sleep(Duration::from_millis(3)).await;
            let mut state = self.state();
            state.under_way.remove(&sandbox.id);
            state.given += 1;
            let fresh = IpAddr::V4(Ipv4Addr::from_bits(0x0a40_0000 + state.given));
            let key = (sandbox.node.clone(), sandbox.id.clone());
            Ok(vec![*state.attached.entry(key).or_insert(fresh)])
        }
        .boxed()
    }

    fn detach<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), PodNetworkError>> {
        async move {
            self.begin("detach", &sandbox.id)?;
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut state = self.state();
            state.under_way.remove(&sandbox.id);
            state.attached.remove(&(sandbox.node.clone(), sandbox.id.clone()));
            Ok(())
        }
        .boxed()
    }

    fn keep_only<'a>(
        &'a self,
        node: &'a str,
        sandboxes: &'a [String],
    ) -> BoxFuture<'a, Result<(), PodNetworkError>> {
        async move {
            self.begin("keep_only", node)?;
            let mut state = self.state();
            state.under_way.remove(node);
            state
                .attached
                .retain(|(on, id), _| on != node || sandboxes.contains(id));
            Ok(())
        }
        .boxed()
    }
}
