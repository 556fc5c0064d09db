//! The cluster that a client speaks for: its certificate's Common Name.
//!
//! rustls has checked the certificate before this is used. Its own parser, webpki, finds the
//! subject; this module only reads a list of names in DER (RFC 5280, 4.1.2.4).

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// 2.5.4.3, as DER has it.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The one Common Name. A certificate with several could be read in two ways.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    one_common_name(certificate.subject())
}

/// Input that is not a list of names has no Common Name.
fn one_common_name(mut subject: &[u8]) -> Option<String> {
    let mut found = None;
    while !subject.is_empty() {
        let mut names = of_tag(&mut subject, SET)?;
        while !names.is_empty() {
            let mut name = of_tag(&mut names, SEQUENCE)?;
            let is_common = of_tag(&mut name, OBJECT_IDENTIFIER)? == COMMON_NAME;
            let (tag, value) = next(&mut name)?;
            if is_common && found.replace((tag, value)).is_some() {
                return None;
            }
        }
    }
    let (tag, value) = found?;
    let is_text = matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING);
    let name = str::from_utf8(value).ok()?;
    (is_text && !name.is_empty()).then(|| name.to_owned())
}

fn of_tag<'a>(input: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(input).and_then(|(found, value)| (found == tag).then_some(value))
}

/// The next element: its tag and its content. DER has only one encoding of each length. A length
/// that needs more than two bytes is refused.
fn next<'a>(input: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => {
            let (&length, rest) = rest.split_first().filter(|(length, _)| **length > 0x7f)?;
            (usize::from(length), rest)
        }
        0x82 => {
            let (bytes, rest) = rest.split_first_chunk().filter(|(bytes, _)| bytes[0] > 0)?;
            (usize::from(u16::from_be_bytes(*bytes)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    *input = rest;
    Some((tag, value))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair};

    use super::*;

    fn made(names: &[(DnType, DnValue)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in names {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let mut bytes = vec![tag];
        bytes.extend((length > 0x7f).then_some(0x81));
        bytes.push(length);
        bytes.extend(content);
        bytes
    }

    fn named(tag: u8, value: &[u8]) -> Vec<u8> {
        let name = [element(OBJECT_IDENTIFIER, COMMON_NAME), element(tag, value)].concat();
        element(SEQUENCE, &name)
    }

    #[test]
    fn the_common_name_stands_among_other_names() {
        let cluster = made(&[
            (DnType::OrganizationName, "Example".into()),
            (DnType::CommonName, "cluster-1".into()),
            (DnType::CountryName, "AQ".into()),
        ]);
        assert_eq!(common_name(&cluster).as_deref(), Some("cluster-1"));
    }

    #[test]
    fn names_are_read_in_each_kind_of_text() {
        for value in [
            DnValue::PrintableString("edge".try_into().unwrap()),
            DnValue::Ia5String("edge".try_into().unwrap()),
            DnValue::Utf8String("edge".to_owned()),
        ] {
            let cluster = made(&[(DnType::CommonName, value)]);
            assert_eq!(common_name(&cluster).as_deref(), Some("edge"));
        }
        let long = "n".repeat(300);
        let cluster = made(&[(DnType::CommonName, long.as_str().into())]);
        assert_eq!(common_name(&cluster), Some(long));
    }

    #[test]
    fn without_one_common_name_there_is_none() {
        let other = DnType::CustomDnType(vec![2, 5, 4, 3]);
        for names in [
            vec![],
            vec![(DnType::OrganizationName, "a".into())],
            vec![(DnType::CommonName, "".into())],
            vec![(DnType::CommonName, "a".into()), (other, "b".into())],
        ] {
            assert_eq!(common_name(&made(&names)), None, "{names:?}");
        }
        assert_eq!(common_name(&vec![0x30, 0].into()), None);
    }

    #[test]
    fn two_common_names_in_one_set_are_two() {
        let one = named(UTF8_STRING, b"a");
        let both = [one.clone(), named(UTF8_STRING, b"b")].concat();
        assert_eq!(one_common_name(&element(SET, &one)).as_deref(), Some("a"));
        assert_eq!(one_common_name(&element(SET, &both)), None);
    }

    #[test]
    fn what_is_no_text_is_no_name() {
        let bitmap = named(0x1e, b"\0a");
        let not_utf8 = named(UTF8_STRING, b"\xff");
        for name in [bitmap, not_utf8] {
            assert_eq!(one_common_name(&element(SET, &name)), None);
        }
    }

    #[test]
    fn a_damaged_subject_has_no_name() {
        let whole = element(SET, &named(UTF8_STRING, &[b'n'; 200]));
        assert!(one_common_name(&whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(one_common_name(&whole[..end]), None, "{end}");
        }
        // Lengths that DER writes shorter, that have no end, or that no name has.
        for length in [&[0x81, 5][..], &[0x82, 0, 5], &[0x80], &[0x83, 0, 0, 5], &[0xff]] {
            let damaged = [&[SET], length, &[0; 5]].concat();
            assert_eq!(one_common_name(&damaged), None, "{length:x?}");
        }
    }
}
