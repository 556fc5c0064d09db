//! The formats of stored data. Each store declares its format; data without a declaration has the
//! first. A program refuses a later format than it knows, and leaves the data as it is.

use serde::Deserialize;

/// A later program wrote the data, and this one must not touch it. The caller adds which data that
/// is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is in format {found}, and this program knows formats up to {known}: run the newer Berth \
     that wrote it; nothing was changed"
)]
pub struct NewerFormat {
    pub found: u64,
    pub known: u64,
}

/// The format of data without a declaration.
pub const FIRST: u64 = 1;

impl NewerFormat {
    pub fn check(found: u64, known: u64) -> Result<(), Self> {
        if found > known {
            return Err(Self { found, known });
        }
        Ok(())
    }

    /// Checks a JSON document by its field `format`. Other data passes: its reader reports what is
    /// wrong with it.
    pub fn check_json(text: &[u8], known: u64) -> Result<(), Self> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(default = "first")]
            format: u64,
        }
        let head: Option<Head> = serde_json::from_slice(text).ok();
        Self::check(head.map_or(FIRST, |head| head.format), known)
    }
}

/// The default for documents that are read with serde.
pub fn first() -> u64 {
    FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_in_the_first_format() {
        for text in ["{}", "[]", "", r#"{"format": 1}"#, r#"{"format": "x"}"#] {
            assert_eq!(NewerFormat::check_json(text.as_bytes(), 1), Ok(()), "{text}");
        }
    }

    #[test]
    fn a_later_format_is_refused_with_both_numbers_and_the_fix() {
        let refused = NewerFormat::check_json(br#"{"other": [], "format": 9}"#, 2).unwrap_err();
        assert_eq!(refused, NewerFormat { found: 9, known: 2 });
        let said = refused.to_string();
        assert!(said.contains("format 9") && said.contains("up to 2"), "{said}");
        assert!(said.contains("run the newer Berth"), "{said}");
    }
}
