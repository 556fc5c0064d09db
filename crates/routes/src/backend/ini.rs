//! Settings files as cloud controller managers have them: `[Section]`, `key = value`, comments
//! after `#` or `;`, values in quotes or not, a key several times.

use std::collections::BTreeMap;

/// Sections and keys in lower case, dashes and underscores left out: `router-id` is `routerID`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ini {
    values: BTreeMap<(String, String), Vec<String>>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: write it as [Section] or key = value")]
pub struct IniError {
    line: usize,
}

impl Ini {
    pub fn parse(text: &str) -> Result<Self, IniError> {
        let mut ini = Self::default();
        let mut section = String::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|line| line.strip_suffix(']'))
            {
                section = plain(name);
                continue;
            }
            let (key, value) = line.split_once('=').ok_or(IniError { line: at + 1 })?;
            let values = ini.values.entry((section.clone(), plain(key))).or_default();
            values.push(unquoted(value));
        }
        Ok(ini)
    }

    pub fn get(&self, section: &str, key: &str) -> Option<&str> {
        self.all(section, key)
            .last()
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    pub fn all(&self, section: &str, key: &str) -> &[String] {
        let found = self.values.get(&(plain(section), plain(key)));
        found.map_or(&[], Vec::as_slice)
    }
}

fn plain(name: &str) -> String {
    let kept = name
        .trim()
        .chars()
        .filter(|one| !matches!(one, '-' | '_' | '"'));
    kept.collect::<String>().to_lowercase()
}

fn unquoted(value: &str) -> String {
    let value = value.trim();
    if let Some(quoted) = value.strip_prefix('"')
        && let Some((inside, _)) = quoted.split_once('"')
    {
        return inside.to_owned();
    }
    let end = value.find([' ', '\t']).filter(|at| {
        let rest = value.get(*at..).unwrap_or_default().trim_start();
        rest.starts_with(['#', ';'])
    });
    value
        .get(..end.unwrap_or(value.len()))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_however_they_are_written() {
        let text = "# ours\n[Global]\nauth-url=http://a/v3 ; here\nPassword = \"a # \
                    b\"\n\n[Route]\nRouter_ID = r1\nrouter-id=r2\n";
        let ini = Ini::parse(text).unwrap();
        assert_eq!(ini.get("global", "AuthURL"), Some("http://a/v3"));
        assert_eq!(ini.get("Global", "password"), Some("a # b"));
        assert_eq!(ini.all("Route", "RouterID"), ["r1", "r2"]);
        assert_eq!(ini.get("Route", "other"), None);
    }

    #[test]
    fn a_line_that_says_nothing_is_named() {
        assert_eq!(
            Ini::parse("[a]\nb = 1\nnonsense")
                .unwrap_err()
                .to_string()
                .get(..7),
            Some("line 3:")
        );
    }
}
