//! Lines of at most 100 columns. rustfmt checks code; this checks comments and docs.

use std::path::Path;

const MAX_COLUMNS: usize = 100;

/// The numbers of lines that are too long. Text that cannot be broken may be longer: tables, code
/// blocks, and lines of one word, such as an address.
pub fn too_long(path: &Path, text: &str) -> Vec<usize> {
    let is_prose = match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => |line: &str| !line.trim_start().starts_with('|'),
        Some("rs") => |line: &str| line.trim_start().starts_with("//") && !line.contains(" | "),
        Some("go" | "ts" | "tsx" | "mjs") => |line: &str| line.trim_start().starts_with("// "),
        Some("toml" | "yaml" | "sh" | "service") => {
            |line: &str| line.trim_start().starts_with("# ")
        }
        _ => return Vec::new(),
    };
    let mut in_block = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words = line.trim_start().trim_start_matches(['/', '!', '#', ' ']);
        if words.starts_with("```") {
            in_block = !in_block;
        }
        let is_long = line.chars().count() > MAX_COLUMNS;
        let breaks = words.trim_start_matches(['-', '*', ' ']).contains(' ');
        if is_long && !in_block && is_prose(line) && breaks {
            found.push(number + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_checked_and_tables_and_blocks_are_not() {
        let long = "word ".repeat(30);
        let text = format!("{long}\n| {long}|\n```\n{long}\n```\n{long}");
        assert_eq!(too_long(Path::new("a.md"), &text), [1, 6]);
        for file in ["a.rs", "a.go", "a.tsx"] {
            assert_eq!(too_long(Path::new(file), &format!("let {long}\n// {long}")), [2]);
        }
        assert!(too_long(Path::new("a.png"), &long).is_empty());
    }
}
