//! A test's name states its promise, and people read it in one line.

const MAX_NAME: usize = 60;

/// The names of tests that are longer than that, each with its line.
pub fn too_long(text: &str) -> Vec<(usize, &str)> {
    let mut is_test = false;
    let mut found = Vec::new();
    for (line, number) in text.lines().map(str::trim).zip(1..) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(name) = function(line) {
            if is_test && name.len() > MAX_NAME {
                found.push((number, name));
            }
            is_test = false;
        }
    }
    found
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tests_are_held_to_the_length() {
        let long = "a".repeat(MAX_NAME + 1);
        let longest = "a".repeat(MAX_NAME);
        let text = format!(
            "fn {long}() {{\n#[test]\nfn {longest}() {{\n#[test]\n#[ignore]\nfn {long}() {{\n    \
             #[tokio::test(start_paused = true)]\n    async fn {long}() {{\n"
        );
        assert_eq!(too_long(&text), [(6, &*long), (8, &*long)]);
    }
}
