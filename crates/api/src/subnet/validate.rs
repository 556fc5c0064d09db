//! The rules of the CRD, in Rust: for Subnets that are older than a rule, and for address space
//! from a flag.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use berth_addr::{Family, ParseError, Plan, Prefix, Range, UnitLengths};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use kube::ResourceExt;

use super::{MAX_NAME_LENGTH, Subnet, SubnetSpec, Use, duration, rules};

/// An invalid field, and how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// The path, as the API server writes it: `spec.cidrs[0]`.
    pub field: String,
    pub message: String,
}

/// The parsed fields of a Subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidSubnet {
    pub plan: Plan,
    pub gateways: Vec<IpAddr>,
    pub dns: Vec<IpAddr>,
    pub reuse_delay: Duration,
}

impl Subnet {
    /// Returns the parsed spec, or all errors in the order of the fields.
    pub fn validate(&self) -> Result<ValidSubnet, Vec<Invalid>> {
        let mut refused = Findings::default();
        if self.name_any().len() > MAX_NAME_LENGTH.into() {
            refused.add(
                "metadata.name",
                format_args!("may not be more than {MAX_NAME_LENGTH} bytes"),
            );
        }
        let valid = self.spec.read(&mut refused);
        refused.or(valid)
    }
}

impl SubnetSpec {
    /// Like [`Subnet::validate`], for a spec that has no name yet.
    pub fn validate(&self) -> Result<ValidSubnet, Vec<Invalid>> {
        let mut refused = Findings::default();
        let valid = self.read(&mut refused);
        refused.or(valid)
    }

    /// Returns what could be parsed. It is complete only if nothing was refused.
    fn read(&self, refused: &mut Findings) -> ValidSubnet {
        let cidrs: Vec<Prefix> = refused.list("spec.cidrs", &self.cidrs, rules::MAX_CIDRS, cidr);
        let ranges = refused.list("spec.ranges", &self.ranges, rules::MAX_RANGES, range);
        let excludes = refused.list("spec.excludes", &self.excludes, rules::MAX_EXCLUDES, range);
        let gateways = refused.list("spec.gateways", &self.gateways, rules::MAX_ADDRESSES, address);
        let dns = refused.list("spec.dns", &self.dns, rules::MAX_ADDRESSES, address);
        let reuse_delay = duration::parse(&self.reuse_delay).unwrap_or_else(|| {
            refused.add(
                "spec.reuseDelay",
                format_args!("{:?} {}", self.reuse_delay, rules::NOT_A_DURATION),
            );
            Duration::ZERO
        });
        self.check_numbers(refused);
        self.check_selector(refused);

        if self.cidrs.is_empty() {
            refused.add("spec.cidrs", "should have at least 1 items");
        }
        // As in the CRD: if a CIDR could not be parsed, it was refused already, and nothing can be
        // said about what lies outside.
        if cidrs.len() == self.cidrs.len() {
            self.check_space(&cidrs, refused);
            let inside = |range: Range| cidrs.iter().any(|cidr| covers(*cidr, range));
            let outside = |ranges: &[Range]| ranges.iter().copied().find(|range| !inside(*range));
            if ranges.len() == self.ranges.len()
                && let Some(range) = outside(&ranges)
            {
                refused.add("spec.ranges", format_args!("{range} {}", rules::OUTSIDE));
            }
            if excludes.len() == self.excludes.len()
                && let Some(range) = outside(&excludes)
            {
                refused.add("spec.excludes", format_args!("{range} {}", rules::OUTSIDE));
            }
            if self.usage != Use::Machines
                && gateways.len() == self.gateways.len()
                && let Some(gateway) = gateways.iter().find(|gateway| !inside((**gateway).into()))
            {
                refused.add("spec.gateways", format_args!("{gateway} {}", rules::GATEWAY_OUTSIDE));
            }
        }

        ValidSubnet {
            plan: Plan {
                cidrs,
                ranges,
                excludes,
                reservations: gateways.iter().chain(&dns).copied().collect(),
                unit_lengths: UnitLengths {
                    ipv4: self.unit_length(Family::V4),
                    ipv6: self.unit_length(Family::V6),
                },
                shares_cidrs: self.usage == Use::Machines,
            },
            gateways,
            dns,
            reuse_delay,
        }
    }

    /// Checks the cidrs against each other and against the units.
    fn check_space(&self, cidrs: &[Prefix], refused: &mut Findings) {
        let overlapping = cidrs
            .iter()
            .find(|cidr| cidrs.iter().filter(|other| other.overlaps(**cidr)).count() > 1);
        if let Some(cidr) = overlapping {
            refused.add("spec.cidrs", format_args!("{cidr} {}", rules::OVERLAP));
        }
        let too_short = cidrs
            .iter()
            .find(|cidr| cidr.length() > self.unit_length(cidr.family()));
        if let Some(cidr) = too_short {
            refused.add("spec.cidrs", format_args!("{cidr} {}", rules::UNIT_TOO_SHORT));
        }
    }

    fn check_numbers(&self, refused: &mut Findings) {
        let lengths = self.unit_lengths;
        refused.bounds("spec.unitLengths.ipv4", lengths.ipv4.unwrap_or(32), rules::IPV4_UNIT);
        refused.bounds("spec.unitLengths.ipv6", lengths.ipv6.unwrap_or(128), rules::IPV6_UNIT);
        if self.usage != Use::NodeCidrs
            && Family::ALL
                .into_iter()
                .any(|family| self.unit_length(family) != family.bits())
        {
            refused.add("spec.unitLengths", rules::UNIT_NOT_AN_ADDRESS);
        }

        let scaler = self.scaler;
        let request = scaler.request_threshold_percent;
        let release = scaler.release_threshold_percent;
        refused.bounds("spec.scaler.batchSize", scaler.batch_size, rules::BATCH_SIZE);
        refused.bounds("spec.scaler.requestThresholdPercent", request, rules::REQUEST_THRESHOLD);
        refused.bounds("spec.scaler.releaseThresholdPercent", release, rules::RELEASE_THRESHOLD);
        refused.bounds("spec.scaler.maxIPCount", scaler.max_ip_count, rules::MAX_IP_COUNT);
        if request >= release {
            refused.add("spec.scaler.requestThresholdPercent", rules::SCALER_CROSSED);
        }

        let exhaustion = self.exhaustion;
        refused.bounds(
            "spec.exhaustion.enterPercent",
            exhaustion.enter_percent,
            rules::EXHAUSTION_THRESHOLD,
        );
        refused.bounds(
            "spec.exhaustion.leavePercent",
            exhaustion.leave_percent,
            rules::EXHAUSTION_THRESHOLD,
        );
        if exhaustion.leave_percent >= exhaustion.enter_percent {
            refused.add("spec.exhaustion.leavePercent", rules::EXHAUSTION_CROSSED);
        }
    }

    fn check_selector(&self, refused: &mut Findings) {
        let expressions = self.node_selector.match_expressions.iter().flatten();
        for (i, expression) in
            expressions.enumerate().filter(|(_, expression)| !is_sound(expression))
        {
            let field = format!("spec.nodeSelector.matchExpressions[{i}]");
            refused.add(&field, format_args!("{:?} {}", expression.key, rules::BAD_SELECTOR));
        }
    }
}

#[derive(Default)]
struct Findings(Vec<Invalid>);

impl Findings {
    fn add(&mut self, field: &str, message: impl Display) {
        self.0.push(Invalid {
            field: field.to_owned(),
            message: message.to_string(),
        });
    }

    /// Uses the words of the API server.
    fn bounds<N: PartialOrd + Display>(
        &mut self,
        field: &str,
        number: N,
        bounds: RangeInclusive<N>,
    ) {
        if number < *bounds.start() {
            self.add(
                field,
                format_args!("should be greater than or equal to {}", bounds.start()),
            );
        }
        if number > *bounds.end() {
            self.add(field, format_args!("should be less than or equal to {}", bounds.end()));
        }
    }

    fn list<T>(
        &mut self,
        field: &str,
        texts: &[String],
        most: usize,
        read: impl Fn(&str) -> Read<T>,
    ) -> Vec<T> {
        if texts.len() > most {
            self.add(field, format_args!("must have at most {most} items"));
        }
        let mut values = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let (value, wrong) = read(text);
            values.extend(value);
            if let Some(wrong) = wrong {
                self.add(&format!("{field}[{i}]"), format_args!("{text:?} {wrong}"));
            }
        }
        values
    }

    fn or<T>(self, valid: T) -> Result<T, Vec<Invalid>> {
        if self.0.is_empty() { Ok(valid) } else { Err(self.0) }
    }
}

/// The parsed value or the best guess of it, and what is wrong with the text.
type Read<T> = (Option<T>, Option<&'static str>);

fn address(text: &str) -> Read<IpAddr> {
    match text.parse() {
        Ok(address) if !is_mapped(address) => (Some(address), None),
        _ => (None, Some(rules::NOT_AN_ADDRESS)),
    }
}

fn cidr(text: &str) -> Read<Prefix> {
    let (value, wrong) = match text.parse::<Prefix>() {
        Ok(cidr) => (Some(cidr), None),
        Err(ParseError::HostBits { fix, .. }) => (fix.parse().ok(), Some(rules::HOST_BITS)),
        Err(_) => (None, Some(rules::NOT_A_CIDR)),
    };
    match value.filter(|cidr| !is_mapped(cidr.first())) {
        Some(cidr) => (Some(cidr), wrong),
        None => (None, Some(rules::NOT_A_CIDR)),
    }
}

fn range(text: &str) -> Read<Range> {
    let (value, wrong) = match text.parse::<Range>() {
        Ok(range) => (Some(range), None),
        Err(ParseError::HostBits { fix, .. }) => (fix.parse().ok(), Some(rules::HOST_BITS)),
        Err(ParseError::Reversed { fix, .. }) => (fix.parse().ok(), Some(rules::REVERSED)),
        Err(_) => (None, Some(rules::NOT_A_RANGE)),
    };
    match value.filter(|range| !is_mapped(range.first()) && !is_mapped(range.last())) {
        Some(range) => (Some(range), wrong),
        None => (None, Some(rules::NOT_A_RANGE)),
    }
}

/// `::ffff:10.64.0.1` is an IPv4 address in IPv6 form. Kubernetes accepts it for neither family.
fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

/// Whether one CIDR contains the range: a range across two CIDRs may include addresses outside of
/// both.
fn covers(cidr: Prefix, range: Range) -> bool {
    cidr.contains(range.first()) && cidr.contains(range.last())
}

fn is_sound(expression: &LabelSelectorRequirement) -> bool {
    let has_values = expression.values.as_ref().is_some_and(|values| !values.is_empty());
    match expression.operator.as_str() {
        "In" | "NotIn" => has_values,
        "Exists" | "DoesNotExist" => !has_values,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(cidrs: &[&str]) -> SubnetSpec {
        SubnetSpec {
            cidrs: cidrs.iter().map(ToString::to_string).collect(),
            ..SubnetSpec::default()
        }
    }

    #[test]
    fn a_valid_subnet_reserves_its_gateways_and_dns_servers() {
        let subnet = SubnetSpec {
            gateways: vec!["10.64.0.1".to_owned()],
            dns: vec!["192.0.2.53".to_owned()],
            ..spec(&["10.64.0.0/16", "fd64::/64"])
        };
        let valid = subnet.validate().unwrap();
        assert_eq!(valid.reuse_delay, Duration::from_secs(30));
        assert_eq!(valid.plan.reservations, [valid.gateways[0], valid.dns[0]]);
        let layouts = valid.plan.layouts().unwrap();
        assert_eq!(layouts[&Family::V4].capacity(), 65_533);
        assert_eq!(layouts[&Family::V6].unit_length(), 128);
    }

    #[test]
    fn unset_unit_lengths_of_node_cidrs_default_by_usage() {
        let mut subnet = SubnetSpec {
            usage: Use::NodeCidrs,
            ..spec(&["10.64.0.0/16", "fd64::/56"])
        };
        subnet.unit_lengths.ipv4 = Some(26);
        let lengths = subnet.validate().unwrap().plan.unit_lengths;
        assert_eq!((lengths.ipv4, lengths.ipv6), (26, 64));
    }

    #[test]
    fn a_refusal_reads_as_field_and_message() {
        let refused = spec(&["10.64.0.1/16"]).validate().unwrap_err();
        assert_eq!(
            refused[0].to_string(),
            "spec.cidrs[0]: \"10.64.0.1/16\" has host bits set: clear the bits after \
             the prefix length, as in 10.64.0.0/16"
        );
    }
}
