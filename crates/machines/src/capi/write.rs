//! Writes to claims and IPAddress objects.

use std::net::IpAddr;

use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::watch::Key;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::objects::{Address, Claim, DNS_SERVERS, FINALIZER};
use super::status::{Verdict, status};
use super::{Context, FIELD_MANAGER};
use crate::failure::ReconcileError;
use crate::pool::Pool;

impl Context {
    fn claim_api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.served.claims)
    }

    fn address_api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.served.addresses)
    }

    /// The lease exists already: whoever reads this object may use the address.
    pub(super) async fn create(
        &self,
        claim: &Claim,
        name: &str,
        pool: &Pool,
        ip: IpAddr,
    ) -> Result<Address, ReconcileError> {
        let object = self.object(claim, name, pool, ip);
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|error| ReconcileError::from(kube::Error::SerdeError(error)))?;
        let Key {
            namespace,
            name: of_claim,
        } = claim.name();
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match self.address_api(&namespace).create(&params, &object).await {
            Ok(object) => Ok(Address::of(&object)),
            // It was created meanwhile, or the watch has not reported it yet: it is kept, whatever
            // is in it.
            Err(error) if is_conflict(&error) => Err(ReconcileError::Contended {
                object: format!("IPAddress {namespace}/{of_claim}"),
            }),
            Err(error) => Err(error.into()),
        }
    }

    fn object(&self, claim: &Claim, name: &str, pool: &Pool, ip: IpAddr) -> Value {
        let Key {
            namespace,
            name: of_claim,
        } = claim.name();
        let length = pool.cidr_around(ip).map(|cidr| cidr.length());
        let mut spec = json!({
            "address": ip,
            "prefix": length,
            "claimRef": {"name": of_claim},
            "poolRef": {"apiGroup": "berth.dev", "kind": "Subnet", "name": name},
        });
        if let Some(gateway) = pool.gateway_for(ip) {
            spec["gateway"] = json!(gateway);
        }
        let claims = &self.served.claims;
        let owner = |version: &str, kind: &str, name: &str, uid: &str, controller: bool| {
            json!({
                "apiVersion": version, "kind": kind, "name": name, "uid": uid,
                "controller": controller, "blockOwnerDeletion": true,
            })
        };
        let uid = claim.metadata.uid.as_deref().unwrap_or_default();
        let mut metadata = json!({
            "name": of_claim,
            "namespace": namespace,
            "finalizers": [FINALIZER],
            "ownerReferences": [
                owner(&claims.api_version, &claims.kind, &of_claim, uid, true),
                owner("berth.dev/v1alpha1", "Subnet", name, &pool.uid, false),
            ],
        });
        if let Some(cluster) = claim.cluster_name() {
            metadata["labels"] = json!({"cluster.x-k8s.io/cluster-name": cluster});
        }
        if !pool.dns.is_empty() {
            let dns: Vec<String> = pool.dns.iter().map(ToString::to_string).collect();
            metadata["annotations"] = json!({DNS_SERVERS: dns.join(",")});
        }
        let addresses = &self.served.addresses;
        json!({"apiVersion": addresses.api_version, "kind": addresses.kind, "metadata": metadata, "spec": spec})
    }

    /// Adds our finalizer, which an IPAddress created by others does not have yet.
    pub(super) async fn protect(&self, address: &Address) -> Result<(), ReconcileError> {
        let mut finalizers = address.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(FINALIZER.to_owned());
        self.set_finalizers(address, &finalizers).await
    }

    /// Whether the claim that it was created for exists, according to the API server.
    pub(super) async fn has_claim(&self, address: &Address) -> Result<bool, ReconcileError> {
        let Key { namespace, name } = address.name();
        let claim = self.claim_api(&namespace).get_opt(&name).await?;
        let of = address.claim_uid();
        Ok(claim.is_some_and(|claim| of.is_none() || claim.metadata.uid.as_deref() == of))
    }

    /// Whether an IPAddress of that name exists, according to the API server.
    pub(super) async fn has_address(&self, name: &Key) -> Result<bool, ReconcileError> {
        let address = self.address_api(&name.namespace).get_opt(&name.name).await?;
        Ok(address.is_some())
    }

    /// Deletes it and removes our finalizer. Its lease ends once it is gone.
    pub(super) async fn remove(&self, address: &Address) -> Result<(), ReconcileError> {
        let Key { namespace, name } = address.name();
        if !address.is_deleting() {
            let params = DeleteParams {
                preconditions: Some(Preconditions {
                    uid: address.metadata.uid.clone(),
                    resource_version: None,
                }),
                ..DeleteParams::background()
            };
            match self.address_api(&namespace).delete(&name, &params).await {
                Err(error) if is_not_found(&error) => return Ok(()),
                Err(error) if is_conflict(&error) => return Ok(()),
                deleted => drop(deleted?),
            }
        }
        if !address.is_protected() {
            return Ok(());
        }
        let finalizers = address.metadata.finalizers.clone().unwrap_or_default();
        let others: Vec<String> = finalizers
            .into_iter()
            .filter(|finalizer| finalizer != FINALIZER)
            .collect();
        let patch = json!({"metadata": {"uid": address.metadata.uid, "finalizers": others}});
        match self
            .address_api(&namespace)
            .patch(&name, &params(), &Patch::Merge(patch))
            .await
        {
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
            patched => patched.map(drop).map_err(Into::into),
        }
    }

    async fn set_finalizers(
        &self,
        address: &Address,
        finalizers: &[String],
    ) -> Result<(), ReconcileError> {
        let Key { namespace, name } = address.name();
        let patch = json!({"metadata": {
            "resourceVersion": address.metadata.resource_version,
            "finalizers": finalizers,
        }});
        match self
            .address_api(&namespace)
            .patch(&name, &params(), &Patch::Merge(patch))
            .await
        {
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => Err(ReconcileError::Contended {
                object: format!("IPAddress {namespace}/{name}"),
            }),
            patched => patched.map(drop).map_err(Into::into),
        }
    }

    pub(super) async fn write_status(
        &self,
        claim: &Claim,
        verdict: &Verdict,
    ) -> Result<(), ReconcileError> {
        let generation = claim.metadata.generation;
        let Some(status) =
            status(&claim.value, generation, verdict, self.served.is_v1beta2, self.now())
        else {
            return Ok(());
        };
        let key = claim.name();
        let patch = json!({
            "metadata": {"resourceVersion": claim.metadata.resource_version},
            "status": status,
        });
        match self
            .claim_api(&key.namespace)
            .patch_status(&key.name, &params(), &Patch::Merge(patch))
            .await
        {
            Ok(object) => {
                // The index gets it at once: until the watch reports it, this would be written
                // again.
                let mut index = self.index.lock();
                if index.claims.contains_key(&key) {
                    index.apply_claim(std::sync::Arc::new(Claim::of(&object)));
                }
                Ok(())
            }
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) if is_conflict(&error) => Err(ReconcileError::Contended {
                object: format!("IPAddressClaim {key}"),
            }),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn reference(&self, claim: &Claim) -> ObjectReference {
        let Key { namespace, name } = claim.name();
        ObjectReference {
            api_version: Some(self.served.claims.api_version.clone()),
            kind: Some(self.served.claims.kind.clone()),
            namespace: Some(namespace),
            name: Some(name),
            uid: claim.metadata.uid.clone(),
            ..ObjectReference::default()
        }
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}
