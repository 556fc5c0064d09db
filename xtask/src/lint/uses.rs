//! The paths in a file, and the names that its `use` lines define.

use std::collections::BTreeMap;

type Path = Vec<String>;

/// The imports and paths of one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// By their name in the file.
    pub imports: BTreeMap<String, Path>,
    /// Paths that begin with `crate`, `self` or `super`, and paths through imports.
    pub paths: Vec<Path>,
}

impl Uses {
    /// `code` has neither comments nor strings.
    pub fn of(code: &str) -> Self {
        let mut uses = Self::default();
        for statement in statements(code) {
            read_tree(&mut Vec::new(), statement.trim(), &mut uses);
        }
        uses.paths.extend(uses.imports.values().cloned());
        uses.paths.extend(inline(code));
        uses
    }
}

/// The text between each `use` and `;`.
fn statements(code: &str) -> impl Iterator<Item = &str> {
    code.split('\n')
        .scan(0, |at, line| {
            let begin = *at;
            *at += line.len() + 1;
            Some((begin, line))
        })
        .filter_map(|(begin, line)| {
            let word = line.trim_start();
            let word = word.strip_prefix("pub").map_or(word, |rest| {
                let rest = rest.trim_start();
                rest.strip_prefix('(')
                    .and_then(|rest| rest.split_once(')'))
                    .map_or(rest, |(_, rest)| rest)
            });
            word.trim_start()
                .strip_prefix("use ")
                .map(|rest| begin + line.len() - rest.len())
        })
        .filter_map(|begin| code.get(begin..)?.split(';').next())
}

fn read_tree(prefix: &mut Path, tree: &str, uses: &mut Uses) {
    let before = prefix.len();
    let mut rest = tree.trim();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            for part in parts(inner.strip_suffix('}').unwrap_or(inner)) {
                read_tree(prefix, part, uses);
            }
            break;
        }
        if let Some((segment, following)) = rest.split_once("::")
            && !segment.contains(['{', ' '])
        {
            prefix.push(segment.to_owned());
            rest = following.trim();
            continue;
        }
        leaf(prefix, rest, uses);
        break;
    }
    prefix.truncate(before);
}

fn leaf(prefix: &Path, leaf: &str, uses: &mut Uses) {
    let (name, called) = leaf.split_once(" as ").unwrap_or((leaf, leaf));
    let (name, called) = (name.trim(), called.trim());
    let mut path = prefix.clone();
    match name {
        "" => return,
        "*" => {
            uses.paths.push(path);
            return;
        }
        "self" => {}
        _ => path.push(name.to_owned()),
    }
    let called = match called {
        "self" => path.last().cloned().unwrap_or_default(),
        _ => called.to_owned(),
    };
    uses.imports.insert(called, path);
}

/// Splits at commas outside of inner braces.
fn parts(tree: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0_usize, 0, Vec::new());
    for (at, letter) in tree.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.extend(tree.get(begin..at));
                begin = at + 1;
            }
            _ => {}
        }
    }
    found.extend(tree.get(begin..));
    found
}

/// All words of the code with `::` in them, those in `use` lines too.
fn inline(code: &str) -> impl Iterator<Item = Path> {
    let is_of_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = code.split(move |letter: char| !is_of_path(letter));
    words.filter(|word| word.contains("::")).map(|word| {
        let segments = word.split("::").filter(|segment| !segment.is_empty());
        segments.map(str::to_owned).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        text.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn trees_become_paths() {
        let uses =
            Uses::of("pub(crate) use crate::{a::{B, c as d}, e::{self, F}};\nuse super::*;\n");
        let imports: Vec<(&str, String)> = uses
            .imports
            .iter()
            .map(|(name, path)| (name.as_str(), path.join("::")))
            .collect();
        let expected = [
            ("B", "crate::a::B"),
            ("F", "crate::e::F"),
            ("d", "crate::a::c"),
            ("e", "crate::e"),
        ];
        assert_eq!(imports, expected.map(|(name, path)| (name, path.to_owned())));
        assert!(uses.paths.contains(&path("super")));
    }

    #[test]
    fn a_path_in_the_code_is_found() {
        let uses = Uses::of("fn f() { crate::a::b(super::c::D) }");
        assert!(uses.paths.contains(&path("crate::a::b")));
        assert!(uses.paths.contains(&path("super::c::D")));
    }
}
