//! Any text in place of an address: it is read and written back the same, or refused with a correct
//! fix.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use berth_addr::{ParseError, Prefix, Range};

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let prefix = read_back::<Prefix>(&text);
    let range = read_back::<Range>(&text);
    if let Some(prefix) = prefix {
        assert_eq!(range, Some(Range::from(prefix)), "a CIDR is a range");
        assert!(
            Range::from(prefix).contains(prefix.first())
                && Range::from(prefix).contains(prefix.last())
        );
    }
    if let Some(range) = range {
        assert!(range.first() <= range.last() && range.count() > 0);
    }
}

fn read_back<T: FromStr<Err = ParseError> + Display + Debug + PartialEq>(text: &str) -> Option<T> {
    match text.parse::<T>() {
        Ok(value) => {
            assert_eq!(value.to_string().parse::<T>().as_ref(), Ok(&value));
            Some(value)
        }
        Err(error) => {
            assert!(
                error.to_string().contains(&format!("{text:?}")),
                "{error} does not name {text:?}"
            );
            check_fix(error);
            None
        }
    }
}

fn check_fix(error: ParseError) {
    match error {
        ParseError::HostBits { fix, .. } | ParseError::NoLength { fix, .. } => {
            assert_eq!(fix.parse::<Prefix>().unwrap().to_string(), fix);
        }
        ParseError::Reversed { fix, .. } => {
            assert_eq!(fix.parse::<Range>().unwrap().to_string(), fix)
        }
        ParseError::NotAnAddress { .. }
        | ParseError::BadLength { .. }
        | ParseError::MixedFamilies { .. } => {}
    }
}
