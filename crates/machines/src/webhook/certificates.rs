//! The webhook's certificates: an authority of its own, and the certificate that it has signed.
//! Pure functions decide when they are renewed.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

const DAY: SignedDuration = SignedDuration::from_hours(24);
const AUTHORITY_DAYS: i32 = 3 * 365;
const CERTIFICATE_DAYS: i32 = 90;
/// How long it takes until every API server trusts a new authority.
const TRUST_DELAY: SignedDuration = SignedDuration::from_mins(5);

/// The content of the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificates {
    /// PEM, the newest first. The one before stays trusted while its certificate is shown.
    pub authorities: String,
    /// The key of the newest authority.
    pub authority_key: String,
    pub authority_made: Timestamp,
    pub certificate: String,
    pub key: String,
    pub certificate_made: Timestamp,
    /// When the authority that signed it was made.
    pub signed_by: Timestamp,
    /// What the certificate is for: host names and addresses.
    pub names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Keep,
    /// There is nothing, or nothing usable.
    MakeAll,
    /// A new authority, beside the one whose certificate is still shown.
    AddAuthority,
    Sign,
}

/// What is to be done next. A new authority is trusted everywhere before its certificate is shown.
pub fn step(found: Option<&Certificates>, names: &[String], now: Timestamp) -> Step {
    let Some(found) = found else {
        return Step::MakeAll;
    };
    let authority_age = now.duration_since(found.authority_made);
    let certificate_age = now.duration_since(found.certificate_made);
    let is_settled = authority_age >= TRUST_DELAY;
    if authority_age >= DAY * AUTHORITY_DAYS {
        Step::MakeAll
    } else if found.names != names
        || (found.signed_by != found.authority_made && is_settled)
        || (certificate_age >= DAY * CERTIFICATE_DAYS * 2 / 3 && is_settled)
    {
        Step::Sign
    } else if authority_age >= DAY * AUTHORITY_DAYS * 2 / 3 {
        Step::AddAuthority
    } else {
        Step::Keep
    }
}

impl Certificates {
    pub fn make(names: &[String], now: Timestamp) -> Result<Self, rcgen::Error> {
        let (authority, authority_key) = authority(now)?;
        let mut made = Self {
            authorities: authority,
            authority_key,
            authority_made: now,
            certificate: String::new(),
            key: String::new(),
            certificate_made: now,
            signed_by: now,
            names: Vec::new(),
        };
        made.sign(names, now)?;
        Ok(made)
    }

    pub fn add_authority(&mut self, now: Timestamp) -> Result<(), rcgen::Error> {
        let (authority, key) = authority(now)?;
        let before = first(&self.authorities);
        self.authorities = format!("{authority}{before}");
        self.authority_key = key;
        self.authority_made = now;
        Ok(())
    }

    pub fn sign(&mut self, names: &[String], now: Timestamp) -> Result<(), rcgen::Error> {
        let authority_key = KeyPair::from_pem(&self.authority_key)?;
        let authority = authority_params(self.authority_made);
        let issuer = Issuer::from_params(&authority, &authority_key);
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = named("berth-webhook".to_owned());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        // A certificate must not outlive its authority.
        let last = self.authority_made + DAY * AUTHORITY_DAYS;
        valid(&mut params, now, last.min(now + DAY * CERTIFICATE_DAYS));
        let key = KeyPair::generate()?;
        self.certificate = params.signed_by(&key, &issuer)?.pem();
        self.key = key.serialize_pem();
        self.certificate_made = now;
        self.signed_by = self.authority_made;
        self.names = names.to_vec();
        Ok(())
    }
}

fn authority(now: Timestamp) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(now).self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// The same moment gives the same parameters: a later signing need not read the certificate again.
fn authority_params(made: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(format!("berth-webhook-ca {}", made.as_second()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    valid(&mut params, made, made + DAY * AUTHORITY_DAYS);
    params
}

/// In whole days. From the day before: clocks differ.
fn valid(params: &mut CertificateParams, from: Timestamp, to: Timestamp) {
    let day = |at: Timestamp| {
        let date = at.to_zoned(TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = day(from - DAY);
    params.not_after = day(to);
}

fn named(name: String) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// The first certificate of several.
fn first(pem: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    pem.find(END).map_or(pem, |at| &pem[..at + END.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + day * 86_400).unwrap()
    }

    fn names() -> Vec<String> {
        vec!["berth-webhook.kube-system.svc".to_owned(), "10.0.0.1".to_owned()]
    }

    #[test]
    fn what_is_not_there_or_has_expired_is_made() {
        assert_eq!(step(None, &names(), at(0)), Step::MakeAll);
        let made = Certificates::make(&names(), at(0)).unwrap();
        assert_eq!(step(Some(&made), &names(), at(3 * 365)), Step::MakeAll);
    }

    #[test]
    fn a_certificate_is_renewed_at_two_thirds_of_its_life() {
        let made = Certificates::make(&names(), at(0)).unwrap();
        assert_eq!(step(Some(&made), &names(), at(59)), Step::Keep);
        assert_eq!(step(Some(&made), &names(), at(60)), Step::Sign);
        let mut next = made.clone();
        next.sign(&names(), at(60)).unwrap();
        assert_eq!(step(Some(&next), &names(), at(61)), Step::Keep);
        assert_ne!(next.certificate, made.certificate);
        assert_eq!(next.authorities, made.authorities);
    }

    #[test]
    fn other_names_need_another_certificate() {
        let made = Certificates::make(&names(), at(0)).unwrap();
        assert_eq!(step(Some(&made), &["other".to_owned()], at(0)), Step::Sign);
    }

    #[test]
    fn a_new_authority_is_trusted_before_its_certificate_is_shown() {
        let mut made = Certificates::make(&names(), at(0)).unwrap();
        made.sign(&names(), at(729)).unwrap();
        let day = 2 * 365;
        assert_eq!(step(Some(&made), &names(), at(day)), Step::AddAuthority);
        let before = made.clone();
        made.add_authority(at(day)).unwrap();
        assert!(made.authorities.ends_with(&before.authorities));
        assert_eq!(made.certificate, before.certificate);
        assert_eq!(step(Some(&made), &names(), at(day)), Step::Keep);
        assert_eq!(step(Some(&made), &names(), at(day) + TRUST_DELAY), Step::Sign);
        made.sign(&names(), at(day + 1)).unwrap();
        assert_eq!(step(Some(&made), &names(), at(day + 1)), Step::Keep);
        // Of two, the older one goes when a third comes.
        made.add_authority(at(2 * day)).unwrap();
        assert_eq!(made.authorities.matches("BEGIN").count(), 2);
        assert!(!made.authorities.contains(&before.authorities));
    }
}
