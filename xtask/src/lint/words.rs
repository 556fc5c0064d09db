//! Words that we do not use: client-go, kubelet or the CNI specification have a better one for
//! each. One word for one thing, in code, logs and docs.

/// The word, and its replacement. Only words without any other meaning.
const WORDS: [(&str, &str); 22] = [
    ("resting", "cooling down"),
    ("rested", "cooled down"),
    ("graves", "tombstones"),
    ("doubted", "quarantined"),
    ("uncertain", "quarantined"),
    ("witnessed", "observed"),
    ("witness", "observer"),
    ("witnesses", "observers"),
    ("wish", "request"),
    ("turnstile", "wait list"),
    ("Trouble", "an XError"),
    ("Complaint", "an XError"),
    ("suffer", "fail"),
    ("MOST", "MAX"),
    ("PATIENCE", "TIMEOUT"),
    ("PAUSE", "INTERVAL"),
    ("AT_ONCE", "CONCURRENCY"),
    ("YOUNG", "MIN_AGE"),
    ("Surroundings", "Context"),
    ("obey", "run, handle or follow"),
    ("folder", "directory"),
    ("folders", "directories"),
];

/// Each word of the list in `line`, and what to say instead. Parts of names count as words.
pub fn find(line: &str) -> Vec<(&'static str, &'static str)> {
    let is_part = |letter: char| !letter.is_alphanumeric();
    let parts: Vec<&str> = line.split(is_part).collect();
    let said = |word: &str| match word.contains('_') {
        true => line.contains(word),
        false => parts.contains(&word),
    };
    WORDS.into_iter().filter(|(word, _)| said(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names_are_found_and_parts_of_words_are_not() {
        assert_eq!(find("const CONNECT_PATIENCE: u8"), [("PATIENCE", "TIMEOUT")]);
        assert_eq!(find("fn in_folder()"), [("folder", "directory")]);
        assert!(find("an impatient placeholder, the most").is_empty());
    }
}
