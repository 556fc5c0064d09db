//! All that is logged on this thread.

use std::io::{self, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};
use tracing_subscriber::fmt::MakeWriter;

/// For as long as this lives, and for tests that run on one thread.
pub struct Logs {
    written: Written,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Logs {
    /// Down to the last detail, also of the libraries that speak with clouds.
    pub fn capture() -> Self {
        let written = Written::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_writer(written.clone())
            .with_ansi(false)
            .finish();
        Self {
            written,
            _guard: set_default(subscriber),
        }
    }

    /// None of these is in there; and something is.
    pub fn hide(&self, secrets: &[&str]) {
        let written = self.written.0.lock();
        let text = String::from_utf8_lossy(&written);
        assert!(text.contains("berth_routes"), "nothing was logged");
        for secret in secrets {
            assert!(secret.len() > 4, "{secret:?} would be found anywhere");
            let line = text.lines().find(|line| line.contains(secret));
            assert_eq!(line, None, "a secret is in the logs");
        }
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
