//! The token that every change needs.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;

/// Shorter ones could be guessed.
const MIN_LENGTH: usize = 16;

/// Everybody who has it may write.
#[derive(Clone)]
pub struct WriteToken(Arc<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("the token has {0} characters: use at least {MIN_LENGTH}")]
    Short(usize),
    #[error("the token has a character that no header can carry: use letters, digits and dashes")]
    Unprintable,
}

/// Not derived: it must not get into a log.
impl fmt::Debug for WriteToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("WriteToken")
    }
}

impl WriteToken {
    /// Ignores white space around the token, such as the end of a file's line.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() < MIN_LENGTH {
            return Err(TokenError::Short(text.len()));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::Unprintable);
        }
        Ok(Self(text.into()))
    }

    /// From 32 random bytes.
    pub fn of_bytes(random: [u8; 32]) -> Self {
        use fmt::Write;
        let mut text = String::new();
        for byte in random {
            // Writing to a String does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        Self(text.into())
    }

    /// For printing it to its user.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Takes constant time: timing reveals nothing but the length.
    pub fn is(&self, given: &str) -> bool {
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_and_nothing_else() {
        let token = WriteToken::new(" 0123456789abcdef\n").unwrap();
        assert!(token.is("0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeF", "0123456789abcdef0"] {
            assert!(!token.is(other), "{other}");
        }
        assert_eq!(format!("{token:?}"), "WriteToken");
        let random = WriteToken::of_bytes([7; 32]);
        assert_eq!(random.expose(), "07".repeat(32));
    }

    #[test]
    fn one_that_could_be_guessed_or_not_be_sent_is_refused() {
        assert_eq!(WriteToken::new("secret").unwrap_err(), TokenError::Short(6));
        assert_eq!(
            WriteToken::new("with a space inside").unwrap_err(),
            TokenError::Unprintable
        );
    }
}
