//! The rules of the CRD for a Subnet, in CEL and OpenAPI. `validate.rs` has the same rules in Rust,
//! with the same words; `tests/rules/subnets.yaml` checks that both agree.
//!
//! Everything is bounded (`maxItems`, `maxLength`): the API server estimates the maximum cost of a
//! rule, and refuses a CRD whose rules may cost too much. The CEL works on API servers since 1.32.
//!
//! All rules run, on each item and on the whole. A rule that needs parsed values passes if they do
//! not parse: another rule reports that, so one mistake is reported once.

use std::ops::RangeInclusive;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::duration;

pub const MAX_CIDRS: usize = 16;
pub const MAX_RANGES: usize = 64;
pub const MAX_EXCLUDES: usize = 128;
pub const MAX_ADDRESSES: usize = 16;
/// `xxxx:xxxx:xxxx:xxxx:xxxx:xxxx:xxxx:xxxx`
const ADDRESS_LENGTH: usize = 39;
const CIDR_LENGTH: usize = ADDRESS_LENGTH + "/128".len();
const RANGE_LENGTH: usize = ADDRESS_LENGTH + "-".len() + ADDRESS_LENGTH;

pub const BATCH_SIZE: RangeInclusive<i64> = 1..=65536;
pub const MAX_IP_COUNT: RangeInclusive<i64> = 1..=65536;
pub const REQUEST_THRESHOLD: RangeInclusive<i64> = 0..=100;
pub const RELEASE_THRESHOLD: RangeInclusive<i64> = 1..=1000;
pub const EXHAUSTION_THRESHOLD: RangeInclusive<i64> = 1..=100;
pub const IPV4_UNIT: RangeInclusive<u8> = 1..=32;
pub const IPV6_UNIT: RangeInclusive<u8> = 1..=128;

// Each text follows the name of the field or the quoted value. None has an apostrophe, which would
// end a string in CEL.
pub const NOT_AN_ADDRESS: &str = "is not an IP address: write it like 10.64.0.1 or fd64::1";
pub const NOT_A_CIDR: &str = "is not a CIDR: write it like 10.64.0.0/16 or fd64::/64";
pub const NOT_A_RANGE: &str = "is neither FIRST-LAST in one family nor a CIDR nor an IP address: \
                               write it like 10.64.0.10-10.64.0.20, 10.64.7.0/28 or 10.64.0.9";
pub const HOST_BITS: &str =
    "has host bits set: clear the bits after the prefix length, as in 10.64.0.0/16";
pub const REVERSED: &str = "ends before it begins: swap its ends";
pub const OVERLAP: &str = "overlaps another of the cidrs: remove one of the two";
pub const APPEND_ONLY: &str =
    "must stay the first of the cidrs, in this order: others may only be appended";
pub const GATEWAY_OUTSIDE: &str = "is in none of the cidrs: take an address in one of them (only \
                                   use: machines may have one outside)";
pub const OUTSIDE: &str =
    "is not inside one of the cidrs: keep both ends in one of them, or append its CIDR to them";
pub const UNIT_TOO_SHORT: &str = "is smaller than the units to be cut from it: use a larger CIDR, \
                                  or set unitLengths to its length or more";
pub const UNIT_NOT_AN_ADDRESS: &str =
    "must be 32 for ipv4 and 128 for ipv6 unless use is node-cidrs: leave it out";
pub const FIXED: &str = "can not be changed: create another Subnet";
pub const EXHAUSTION_CROSSED: &str =
    "must be lower than enterPercent: lower it, or raise enterPercent";
pub const SCALER_CROSSED: &str =
    "must be lower than releaseThresholdPercent: lower it, or raise releaseThresholdPercent";
pub const NOT_A_DURATION: &str = "is not a duration of at most 24h: write it like 30s, 1m30s or 0s";
pub const BAD_SELECTOR: &str =
    "has a bad operator: use In or NotIn with values, Exists or DoesNotExist without";

fn rule(expression: &str, message: &str) -> Value {
    json!({"rule": expression, "message": message})
}

/// A rule whose message begins with the wrong value: `subject` is the CEL expression of that value.
/// A server that cannot evaluate it shows the message alone.
fn rule_on(subject: &str, expression: &str, message: &str) -> Value {
    json!({"rule": expression, "message": message, "messageExpression": format!("{subject} + ' {message}'")})
}

/// The value in quotes, as `berth-addr` writes text that it could not parse.
const SELF: &str = r#"'"' + self + '"'"#;

fn at(field: &str, mut rule: Value) -> Value {
    rule["fieldPath"] = field.into();
    rule
}

/// The first address of FIRST-LAST, in CEL. It does without `split`: the API server cannot tell how
/// long the parts of a `split` are, and would assume the maximum cost.
fn first(range: &str) -> String {
    format!("{range}.substring(0, {range}.indexOf('-'))")
}

fn last(range: &str) -> String {
    format!("{range}.substring({range}.indexOf('-') + 1)")
}

fn is_range(range: &str) -> String {
    let (first, last) = (first(range), last(range));
    format!(
        "({range}.contains('/') ? isCIDR({range}) : {range}.contains('-') ? \
         isIP({first}) && isIP({last}) && ip({first}).family() == ip({last}).family() : \
         isIP({range}))"
    )
}

fn no_host_bits() -> Value {
    rule_on(SELF, "!isCIDR(self) || cidr(self) == cidr(self).masked()", HOST_BITS)
}

/// Whether the address `one` is above `other`, in CEL, which cannot compare addresses.
///
/// The expression finds the longest prefix around both addresses, and the half of it around `one`.
/// `one` is above `other` if it is in the upper half. For example, the longest prefix around
/// 10.0.0.9 and 10.0.0.6 is 10.0.0.0/28, and its half around 10.0.0.9 is 10.0.0.8/29. The half does
/// not begin where the /28 begins, so it is the upper one. Equal addresses have no such half.
fn is_above(one: &str, other: &str) -> String {
    let lengths: Vec<String> = (0..=128).map(|length| format!("'/{length}'")).collect();
    let lengths = lengths.join(",");
    // `[value].exists(name, …)` gives a name to a value that is used more than once.
    format!(
        "[{one}].exists(a, [ip({other})].exists(b, [[{lengths}].filter(l, isCIDR(a + \
         l)).map(l, cidr(a + l))].exists(around, [around.filter(c, \
         c.containsIP(b))].exists(shared, [around.filter(c, \
         !c.containsIP(b))].exists(apart, size(apart) > 0 && !(apart[0].masked().ip() \
         == shared[size(shared) - 1].masked().ip()))))))"
    )
}

pub fn addresses(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MAX_ADDRESSES,
        "items": {
            "type": "string",
            "maxLength": ADDRESS_LENGTH,
            "x-kubernetes-validations": [rule_on(SELF, "isIP(self)", NOT_AN_ADDRESS)],
        },
    })
}

pub fn cidrs(_: &mut SchemaGenerator) -> Schema {
    // Each CIDR overlaps itself, and may overlap no other.
    let overlaps_once = "self.exists_one(b, cidr(a).containsCIDR(b) || cidr(b).containsCIDR(a))";
    let places: Vec<usize> = (0..MAX_CIDRS).collect();
    json_schema!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_CIDRS,
        "items": {
            "type": "string",
            "maxLength": CIDR_LENGTH,
            "x-kubernetes-validations": [rule_on(SELF, "isCIDR(self)", NOT_A_CIDR), no_host_bits()],
        },
        "x-kubernetes-validations": [
            rule_on(
                &format!("self.filter(a, !{overlaps_once})[0]"),
                &format!("self.exists(c, !isCIDR(c)) || self.all(a, {overlaps_once})"),
                OVERLAP,
            ),
            // Units are numbered in the order of the cidrs, so the order must stay.
            rule_on(
                "oldSelf.join(', ')",
                &format!("{places:?}.all(i, i >= size(oldSelf) || (i < size(self) && self[i] == \
                          oldSelf[i]))"),
                APPEND_ONLY,
            ),
        ],
    })
}

pub fn ranges(_: &mut SchemaGenerator) -> Schema {
    range_list(MAX_RANGES)
}

pub fn excludes(_: &mut SchemaGenerator) -> Schema {
    range_list(MAX_EXCLUDES)
}

fn range_list(max_items: usize) -> Schema {
    let (is_range, first, last) = (is_range("self"), first("self"), last("self"));
    let is_above = is_above(&first, &last);
    json_schema!({
        "type": "array",
        "maxItems": max_items,
        "items": {
            "type": "string",
            "maxLength": RANGE_LENGTH,
            "x-kubernetes-validations": [
                rule_on(SELF, &is_range, NOT_A_RANGE),
                no_host_bits(),
                rule_on(SELF, &format!("!(self.contains('-') && {is_range} && {is_above})"), REVERSED),
            ],
        },
    })
}

/// A label selector as in Kubernetes, but bounded, and with a rule: without it, an invalid selector
/// would silently match no node.
pub fn node_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": {"type": "string", "maxLength": 63},
            },
            "matchExpressions": {
                "type": "array",
                "maxItems": 64,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "maxLength": 317},
                        "operator": {"type": "string", "maxLength": 12},
                        "values": {
                            "type": "array",
                            "maxItems": 256,
                            "items": {"type": "string", "maxLength": 63},
                        },
                    },
                    "x-kubernetes-validations": [rule_on(
                        r#"'"' + self.key + '"'"#,
                        "self.operator in ['In', 'NotIn'] ? has(self.values) && \
                         size(self.values) > 0 : self.operator in ['Exists', \
                         'DoesNotExist'] && (!has(self.values) || size(self.values) == \
                         0)",
                        BAD_SELECTOR,
                    )],
                },
            },
        },
        "x-kubernetes-map-type": "atomic",
    })
}

pub fn reuse_delay(_: &mut SchemaGenerator) -> Schema {
    let pattern = duration::PATTERN;
    json_schema!({
        "type": "string",
        "maxLength": duration::MAX_LENGTH,
        "x-kubernetes-validations": [
            rule_on(SELF, &format!("self.matches(r'{pattern}') && duration(self) <= duration('24h')"), NOT_A_DURATION),
        ],
    })
}

pub fn scaler() -> Value {
    json!([at(
        ".requestThresholdPercent",
        rule(
            "self.requestThresholdPercent < self.releaseThresholdPercent",
            SCALER_CROSSED
        ),
    )])
}

pub fn exhaustion() -> Value {
    json!([at(
        ".leavePercent",
        rule("self.leavePercent < self.enterPercent", EXHAUSTION_CROSSED)
    )])
}

pub fn fixed() -> Value {
    json!([rule("self == oldSelf", FIXED)])
}

/// Rules about more than one field.
pub fn spec() -> Value {
    let (ipv4, ipv6) = unit_lengths("self");
    let (old_ipv4, old_ipv6) = unit_lengths("oldSelf");
    let too_short = format!(
        "isCIDR(c) && cidr(c).prefixLength() > (cidr(c).ip().family() == 4 ? {ipv4} : {ipv6})"
    );
    json!([
        gateways_inside(),
        ranges_inside("ranges"),
        ranges_inside("excludes"),
        at(
            ".cidrs",
            rule_on(
                &format!("self.cidrs.filter(c, {too_short})[0]"),
                &format!("!self.cidrs.exists(c, {too_short})"),
                UNIT_TOO_SHORT,
            ),
        ),
        at(
            ".unitLengths",
            rule(
                &format!("self.use == 'node-cidrs' || ({ipv4} == 32 && {ipv6} == 128)"),
                UNIT_NOT_AN_ADDRESS
            ),
        ),
        // A change of `use` changes the default lengths too, but another rule refuses it already.
        at(
            ".unitLengths",
            rule(
                &format!(
                    "self.use != oldSelf.use || ({ipv4} == {old_ipv4} && {ipv6} == {old_ipv6})"
                ),
                FIXED,
            ),
        ),
    ])
}

/// As in `SubnetSpec::unit_length`.
fn unit_lengths(spec: &str) -> (String, String) {
    let length = |family: &str, of_node_cidr: u8, of_address: u8| {
        let field = format!("{spec}.unitLengths.{family}");
        format!(
            "(has({spec}.unitLengths) && has({field}) ? {field} : \
             {spec}.use == 'node-cidrs' ? {of_node_cidr} : {of_address})"
        )
    };
    (length("ipv4", 24, 32), length("ipv6", 64, 128))
}

fn gateways_inside() -> Value {
    let outside = "!self.cidrs.exists(c, cidr(c).containsIP(g))";
    at(
        ".gateways",
        rule_on(
            &format!("self.gateways.filter(g, {outside})[0]"),
            &format!(
                "self.use == 'machines' || !has(self.gateways) || self.cidrs.exists(c, \
                 !isCIDR(c)) || self.gateways.exists(g, !isIP(g)) || \
                 !self.gateways.exists(g, {outside})"
            ),
            GATEWAY_OUTSIDE,
        ),
    )
}

fn ranges_inside(field: &str) -> Value {
    let (is_range, first, last) = (is_range("r"), first("r"), last("r"));
    let outside = format!(
        "!self.cidrs.exists(c, r.contains('/') ? cidr(c).containsCIDR(r) : r.contains('-') ? \
         cidr(c).containsIP({first}) && cidr(c).containsIP({last}) : cidr(c).containsIP(r))"
    );
    at(
        &format!(".{field}"),
        rule_on(
            &format!("self.{field}.filter(r, {outside})[0]"),
            &format!(
                "!has(self.{field}) || self.cidrs.exists(c, !isCIDR(c)) || \
                 self.{field}.exists(r, !{is_range}) || !self.{field}.exists(r, \
                 {outside})"
            ),
            OUTSIDE,
        ),
    )
}
