//! All that this program logs.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

/// Down to the last detail of ours and of the libraries that speak with clouds.
const FILTER: &str = "debug,berth_routes=trace,hyper=trace,hyper_util=trace,rustls=trace";

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

/// All tests of a program share them.
pub struct Logs {
    written: &'static Written,
}

impl Logs {
    /// From now on.
    pub fn capture() -> Self {
        static ALL: LazyLock<Written> = LazyLock::new(|| {
            let written = Written::default();
            let subscriber = tracing_subscriber::fmt()
                .with_env_filter(FILTER)
                .with_writer(written.clone())
                .with_ansi(false)
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
            written
        });
        Self { written: &ALL }
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
