//! Logs on stderr, so that stdout stays the command's own: lines for people, or one JSON object
//! each.

use std::{fmt, io::IsTerminal, str::FromStr};

use tracing::Dispatch;
use tracing_subscriber::{
    EnvFilter, fmt::MakeWriter, layer::SubscriberExt, registry, util::SubscriberInitExt,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// Which spans and events are logged. Parsing refuses a text that `EnvFilter` does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(String);

impl Default for Filter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl Filter {
    /// Everything from info on, but from these crates only warnings and errors.
    pub fn with_warnings_of(crates: &[&str]) -> Self {
        let quiet = crates.iter().map(|krate| format!(",{krate}=warn"));
        Self(quiet.fold(Self::default().0, |filter, one| filter + &one))
    }
}

impl Filter {
    /// Everything from info on, but nothing from these modules: their callers report it.
    pub fn without(modules: &[&str]) -> Self {
        let quiet = modules.iter().map(|module| format!(",{module}=off"));
        Self(quiet.fold(Self::default().0, |filter, one| filter + &one))
    }
}

impl FromStr for Filter {
    type Err = tracing_subscriber::filter::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        EnvFilter::try_new(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("logs are set up already: {0}")]
pub struct AlreadyInitialized(#[from] tracing_subscriber::util::TryInitError);

/// Sets up the logs of this process. Colour only where a terminal reads them and `NO_COLOR` is not
/// set.
pub fn init(format: Format, filter: &Filter) -> Result<(), AlreadyInitialized> {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = std::io::stderr().is_terminal() && !plain;
    dispatch(format, filter, colour, std::io::stderr).try_init()?;
    Ok(())
}

fn dispatch<W>(format: Format, filter: &Filter, colour: bool, writer: W) -> Dispatch
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filtered = registry().with(EnvFilter::new(&filter.0));
    let layer = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Text => filtered.with(layer.with_ansi(colour)).into(),
        // An event's fields stand at the top level, where log collectors look for them.
        Format::Json => filtered
            .with(layer.json().flatten_event(true).with_span_list(false))
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, filter: &str, colour: bool) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let dispatch = dispatch(format, &filter.parse().unwrap(), colour, move || writer.clone());
        tracing::dispatcher::with_default(&dispatch, || {
            let _span = tracing::info_span!("node", node = "n1").entered();
            tracing::warn!(error = "no answer", "retrying");
            tracing::debug!("details");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_has_colour_only_when_asked_for() {
        let text = logged(Format::Text, "info", false);
        assert!(text.contains("WARN") && text.contains("retrying"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(logged(Format::Text, "info", true).contains('\u{1b}'));
    }

    #[test]
    fn json_is_one_object_per_line_with_the_span_it_happened_in() {
        let text = logged(Format::Json, "info", false);
        let line: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "retrying");
        assert_eq!(line["error"], "no answer");
        assert_eq!(line["span"]["node"], "n1");
    }

    #[test]
    fn the_filter_decides_what_is_logged() {
        assert!(!logged(Format::Text, "info", false).contains("details"));
        assert!(logged(Format::Text, "debug", false).contains("details"));
        assert_eq!(logged(Format::Text, "off", false), "");
    }
}
