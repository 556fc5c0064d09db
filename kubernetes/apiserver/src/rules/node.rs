//! Nodes: what belongs to addresses above all.

use std::net::IpAddr;

use serde_json::Value;

use super::{Errors, list, pod, text};
use berth_apimachinery::names;
use berth_apimachinery::status::{FieldError, FieldProblem, Path};

pub fn check(node: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let cidrs: Vec<&str> = list(&node["spec"]["podCIDRs"])
        .filter_map(|(_, cidr)| cidr.as_str())
        .collect();
    let path = spec.child("podCIDRs");
    for (index, cidr) in cidrs.iter().enumerate() {
        if !is_cidr(cidr) {
            let detail = "must be a valid CIDR, such as 10.0.0.0/24";
            errors.push(FieldError::invalid(path.index(index), (*cidr).into(), detail));
        }
    }
    let families: Vec<bool> = cidrs.iter().map(|cidr| cidr.contains(':')).collect();
    if cidrs.len() > 2 || (cidrs.len() == 2 && families[0] == families[1]) {
        let detail = "may hold no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(
            path.clone(),
            node["spec"]["podCIDRs"].clone(),
            detail,
        ));
    }
    let first = cidrs.first().copied().unwrap_or_default();
    if text(&node["spec"], "podCIDR") != first {
        let detail = "must be equal to the first value of spec.podCIDRs";
        errors.push(FieldError::invalid(path.index(0), first.into(), detail));
    }
    for (index, taint) in list(&node["spec"]["taints"]) {
        // Not `spec`: so it is in Kubernetes.
        let path = Path::new("metadata").child("taints").index(index);
        let key = text(taint, "key");
        if let Some(problem) = names::qualified(key) {
            errors.push(FieldError::invalid(path.child("key"), key.into(), problem));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if text(taint, "effect").is_empty() {
            errors.push(FieldError::required(path.child("effect"), ""));
        }
        pod::one_of(taint, "effect", &effects, &path, errors);
        let same = |(_, other): &(usize, &Value)| other["key"] == taint["key"] && other["effect"] == taint["effect"];
        if list(&node["spec"]["taints"]).take(index).any(|other| same(&other)) {
            errors.push(FieldError::new(
                FieldProblem::Duplicate,
                path,
                Some(taint.clone()),
                "taints must be unique by key and effect pair",
            ));
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}

/// A node's podCIDRs are set once: pods have addresses from them.
pub fn changed(new: &Value, old: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    if !old["spec"]["podCIDRs"].is_null() && new["spec"]["podCIDRs"] != old["spec"]["podCIDRs"] {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(spec.child("podCIDRs"), detail));
    }
    let id = text(&old["spec"], "providerID");
    if !id.is_empty() && text(&new["spec"], "providerID") != id {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(spec.child("providerID"), detail));
    }
}
