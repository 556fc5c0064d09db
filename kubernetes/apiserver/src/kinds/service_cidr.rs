//! ServiceCIDRs: one immutable range for each family.

use std::net::IpAddr;

use berth_apimachinery::columns::{AGE, Column, NAME, list as items};
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::networking::v1::ServiceCIDR;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, schema_of};
use crate::rules::{Errors, list};

pub static KIND: BuiltIn = BuiltIn {
    group: "networking.k8s.io",
    kind: "ServiceCIDR",
    plural: "servicecidrs",
    namespaced: false,
    status: true,
    schema: schema_of::<ServiceCIDR>,
    check: |object, change, errors| {
        check(object, errors);
        if let Some(old) = change.old {
            check_change(object, old, errors);
        }
    },
    columns: &[
        NAME,
        Column::made("CIDRs", |object, _| {
            let cidrs = items(object, "/spec/cidrs").iter().filter_map(Value::as_str);
            json!(cidrs.collect::<Vec<_>>().join(","))
        }),
        AGE,
    ],
    ..BuiltIn::PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    let path = Path::new("spec.cidrs");
    let cidrs = &object["spec"]["cidrs"];
    match cidrs.as_array().map_or(0, Vec::len) {
        0 => errors.push(FieldError::required(path, "at least one CIDR required")),
        1 | 2 => {
            let mut parsed = Vec::new();
            for (index, cidr) in list(cidrs) {
                match parse(cidr.as_str().unwrap_or_default()) {
                    Ok(address) => parsed.push(address),
                    Err(why) => {
                        errors.push(FieldError::invalid(path.index(index), cidr.clone(), why))
                    }
                }
            }
            if let [first, second] = parsed[..]
                && first.is_ipv4() == second.is_ipv4()
            {
                let detail = "may specify no more than one IP for each IP family, \
                              i.e 192.168.0.0/24 and 2001:db8::/64";
                errors.push(FieldError::invalid(path, cidrs.clone(), detail));
            }
        }
        _ => errors.push(FieldError::invalid(path, cidrs.clone(), "may only hold up to 2 values")),
    }
}

/// A family can be added, but nothing else can change.
fn check_change(new: &Value, old: &Value, errors: &mut Errors) {
    let path = Path::new("spec.cidrs");
    let (new, old) = (&new["spec"]["cidrs"], &old["spec"]["cidrs"]);
    let count = |cidrs: &Value| cidrs.as_array().map_or(0, Vec::len);
    match (count(old), count(new)) {
        (before, now) if before == now || (before, now) == (1, 2) => {
            for (index, _) in list(old).filter(|(index, cidr)| new[*index] != **cidr) {
                errors.push(FieldError::immutable(path.index(index), &new[index]));
            }
        }
        _ => errors.push(FieldError::immutable(path, new)),
    }
}

/// The address of a range in canonical form, or what is wrong with it.
fn parse(cidr: &str) -> Result<IpAddr, String> {
    let wrong = || "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned();
    let (address, length) = cidr.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let length: u32 = length.parse().map_err(|_| wrong())?;
    let (bits, width) = match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    if length > width {
        return Err(wrong());
    }
    if bits.checked_shl(length).unwrap_or_default() != 0 {
        return Err("must not have bits set beyond the prefix length".to_owned());
    }
    let canonical = format!("{address}/{length}");
    if canonical != cidr {
        return Err(format!("must be in canonical form ({canonical:?})"));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(errors: &Errors) -> Vec<String> {
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    fn refused(cidrs: &[&str]) -> Vec<String> {
        let mut errors = Errors::new();
        check(&json!({"spec": {"cidrs": cidrs}}), &mut errors);
        fields(&errors)
    }

    #[test]
    fn one_range_of_each_family_in_canonical_form_is_taken() {
        for cidrs in [
            &["10.96.0.0/12"][..],
            &["fd00::/112"],
            &["10.96.0.0/12", "fd00::/112"],
            &["0.0.0.0/0"],
        ] {
            assert_eq!(refused(cidrs), [] as [&str; 0], "{cidrs:?}");
        }
        assert_eq!(refused(&[]), ["spec.cidrs"]);
        assert_eq!(refused(&["10.0.0.0/8", "fd00::/112", "fd01::/112"]), ["spec.cidrs"]);
        assert_eq!(refused(&["10.0.0.0/8", "11.0.0.0/8"]), ["spec.cidrs"]);
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "10.0.0.0/08",
            "fd00:0::/112",
            "x/8",
        ] {
            assert_eq!(refused(&["10.96.0.0/12", bad]), ["spec.cidrs[1]"], "{bad}");
        }
    }

    #[test]
    fn a_family_can_be_added_and_nothing_else_changes() {
        let update = |old: &[&str], new: &[&str]| {
            let mut errors = Errors::new();
            let object = |cidrs: &[&str]| json!({"spec": {"cidrs": cidrs}});
            check_change(&object(new), &object(old), &mut errors);
            fields(&errors)
        };
        assert_eq!(update(&["10.0.0.0/8"], &["10.0.0.0/8"]), [] as [&str; 0]);
        assert_eq!(update(&["10.0.0.0/8"], &["10.0.0.0/8", "fd00::/112"]), [] as [&str; 0]);
        assert_eq!(update(&["10.0.0.0/8"], &["11.0.0.0/8"]), ["spec.cidrs[0]"]);
        assert_eq!(update(&["10.0.0.0/8", "fd00::/112"], &["10.0.0.0/8"]), ["spec.cidrs"]);
    }
}
