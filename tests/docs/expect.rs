//! Whether an output is what a page shows.

/// Lines that the page shows must be there in this order. `…` in a line stands for anything, a
/// line `...` for any lines; how many blanks stand between two words does not count.
pub fn is_shown(page: &[String], output: &str) -> bool {
    let shown = page.iter().map(|line| words(line)).filter(|line| !line.is_empty());
    let mut output = output.lines().map(words);
    shown
        .filter(|line| line != "...")
        .all(|line| output.any(|found| fits(&line, &found)))
}

/// A page that shows an error expects one.
pub fn is_error(page: &[String]) -> bool {
    page.iter().any(|line| line.starts_with("berth: "))
}

fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fits(shown: &str, found: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = found.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
    }
    rest.ends_with(last)
}

#[test]
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    assert!(fits(
        "web-… waits since … on no node.",
        "web-1 waits since 3s on no node."
    ));
    assert!(fits("…", "anything") && fits("same", "same") && fits("a…", "a"));
    assert!(!fits("web", "web-1") && !fits("a…c", "ab") && !fits("a…b…c", "axc"));
    assert!(!fits("ab…b", "ab"));
}

#[test]
fn lines_are_looked_for_in_their_order() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(is_shown(&shown("a\n...\nc  d"), "x\na\nb\nc d\n"));
    assert!(!is_shown(&shown("c\na"), "a\nb\nc\n"));
    assert!(is_shown(&[], "whatever"));
}
