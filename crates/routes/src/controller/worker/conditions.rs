//! Conditions on their way to the API server and back.

use tracing::{debug, warn};

use super::{Outcome, Worker};
use crate::controller::feed::Key;
use crate::controller::publish::{Publish, WRITE_INTERVAL, read_condition, write_condition};
use crate::core::{Condition, Node, Standing, standing};

impl Worker {
    pub(super) fn write_conditions(&mut self) {
        if let Publish::Own(name) = &self.options.publish {
            let name = name.clone();
            self.publishing.clear();
            return self.write_own(name);
        }
        while let Some(name) = self.publishing.pop() {
            let node = self.shared.index.lock().get(&name).cloned();
            let Some(node) = node else {
                continue;
            };
            // The end of that write queues the node again.
            if self.publishing.under_way.contains(&name) {
                continue;
            }
            if let Some(condition) = self.condition_to_write(&node) {
                self.write(node, condition);
            }
        }
    }

    /// `None` also while the first try for the node is still under way.
    fn condition_to_write(&self, node: &Node) -> Option<Condition> {
        match self.with_view(|view| standing(view, node))? {
            Standing::NoCidr => None,
            Standing::Routed => Condition::to_write(node.condition.as_ref(), true),
            Standing::NotRouted => {
                let tried = || node.prefixes().any(|one| self.retries.has_failed(one));
                let scope = self.shared.scope.lock().clone().unwrap_or_default();
                let refused = || !self.shared.index.lock().problems(node, &scope).is_empty();
                let blocked = || {
                    node.prefixes()
                        .any(|one| self.obstacle(node, one).is_some())
                };
                (tried() || refused() || blocked())
                    .then(|| Condition::to_write(node.condition.as_ref(), false))
                    .flatten()
            }
        }
    }

    fn write(&mut self, node: Node, condition: Condition) {
        self.publishing.under_way.insert(node.name.clone());
        let client = self.options.client.clone();
        self.tasks.spawn(async move {
            let result = write_condition(client, &node.name, Some(&node.uid), &condition).await;
            Outcome::Written {
                node: node.name,
                uid: node.uid,
                condition,
                result,
            }
        });
    }

    pub(super) fn condition_written(
        &mut self,
        name: &str,
        uid: &str,
        condition: Condition,
        result: kube::Result<()>,
    ) {
        self.publishing.under_way.remove(name);
        match result {
            Ok(()) => {
                // The watch will send the same.
                let mut index = self.shared.index.lock();
                if let Some(node) = index.get_mut(name).filter(|node| node.uid == uid) {
                    node.condition = Some(condition);
                }
            }
            // The node is gone or was recreated: the watch will send that.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                debug!(
                    node = name,
                    %status,
                    "condition not written; the Node is gone or was recreated"
                );
                return;
            }
            Err(error) => {
                warn!(
                    node = name,
                    %error,
                    "cannot write the condition; retrying in {WRITE_INTERVAL:?}"
                );
                self.queue
                    .add_after(Key::Condition(name.to_owned()), WRITE_INTERVAL);
                return;
            }
        }
        self.publishing.push(name);
    }

    /// Our own node is ready once it has routes to all others, as far as they can be made now.
    fn write_own(&mut self, name: String) {
        let done = self.table.is_some() && self.full.is_none() && self.calls == 0;
        if !done || self.own_published {
            return;
        }
        self.own_published = true;
        let client = self.options.client.clone();
        self.tasks.spawn(async move {
            let write = async {
                let there = read_condition(client.clone(), &name).await?;
                match Condition::to_write(there.as_ref(), true) {
                    Some(condition) => write_condition(client, &name, None, &condition).await,
                    None => Ok(()),
                }
            };
            let written = write.await;
            if written.is_err() {
                tokio::time::sleep(WRITE_INTERVAL).await;
            }
            Outcome::WrittenOwn(written)
        });
    }

    pub(super) fn own_written(&mut self, result: &kube::Result<()>) {
        if let Err(error) = result {
            warn!(%error, "cannot write the condition of this node; retrying");
            self.own_published = false;
        }
    }
}
