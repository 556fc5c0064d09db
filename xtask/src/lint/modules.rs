//! The files of a crate as modules, and which of them use which.
//!
//! To its siblings, a module includes all modules below it. Children may use what their parent has,
//! and the parent uses them: that is how a topic is split into files. Siblings must not use each
//! other in a cycle. A re-exported name (`pub use`) belongs to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use super::source::code_of;
use super::uses::Uses;
use crate::crates::files;

/// How many re-exports of a name are followed.
const MAX_STEPS: usize = 8;

struct Module {
    path: Vec<String>,
    uses: Uses,
}

pub struct Modules {
    all: Vec<Module>,
    by_path: BTreeMap<Vec<String>, usize>,
}

impl Modules {
    pub fn read(source: &Path) -> Result<Self> {
        let mut all = Vec::new();
        for file in files(source)? {
            let text =
                std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let path = path_of(file.strip_prefix(source)?);
            // `foo/tests.rs` is a test beside the code.
            if path.last().is_some_and(|name| name == "tests") {
                continue;
            }
            let uses = Uses::of(&code_of(&text));
            all.push(Module { path, uses });
        }
        Ok(Self::new(all))
    }

    fn new(all: Vec<Module>) -> Self {
        let by_path = all.iter().enumerate().map(|(at, module)| (module.path.clone(), at));
        Self {
            by_path: by_path.collect(),
            all,
        }
    }

    /// Which siblings each module uses, by path.
    pub fn siblings(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for module in &self.all {
            for path in &module.uses.paths {
                let Some(used) = self.resolve(module, path, MAX_STEPS) else {
                    continue;
                };
                let Some(used) = self.all.get(used) else {
                    continue;
                };
                let same = module
                    .path
                    .iter()
                    .zip(&used.path)
                    .take_while(|(one, other)| one == other);
                let depth = same.count() + 1;
                if let (Some(from), Some(to)) = (module.path.get(..depth), used.path.get(..depth)) {
                    edges.entry(from.join("::")).or_default().insert(to.join("::"));
                }
            }
        }
        edges
    }

    /// The file that defines what `path` names.
    fn resolve(&self, from: &Module, path: &[String], steps: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let mut place = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.path.clone(),
            "super" => parent(&from.path)?,
            // A child module, or an imported name.
            name => {
                let mut child = from.path.clone();
                child.push(name.to_owned());
                if self.by_path.contains_key(&child) {
                    child
                } else {
                    let import = from.uses.imports.get(name)?;
                    let known = import.first().is_some_and(|first| first != name);
                    let mut whole = import.clone();
                    whole.extend(rest.iter().cloned());
                    return (known && steps > 0)
                        .then(|| self.resolve(from, &whole, steps - 1))
                        .flatten();
                }
            }
        };
        let mut rest = rest.iter();
        for name in rest.by_ref() {
            if name == "super" {
                place = parent(&place)?;
                continue;
            }
            let mut child = place.clone();
            child.push(name.clone());
            if !self.by_path.contains_key(&child) {
                return self.definition_of(&place, name, steps);
            }
            place = child;
        }
        self.by_path.get(&place).copied()
    }

    /// Where the name of the module at `place` is defined.
    fn definition_of(&self, place: &[String], name: &str, steps: usize) -> Option<usize> {
        let at = *self.by_path.get(place)?;
        let module = self.all.get(at)?;
        let reexport = module.uses.imports.get(name).filter(|_| steps > 0);
        let found = reexport.and_then(|path| self.resolve(module, path, steps.checked_sub(1)?));
        Some(found.unwrap_or(at))
    }
}

fn parent(path: &[String]) -> Option<Vec<String>> {
    path.split_last().map(|(_, parent)| parent.to_vec())
}

/// `a/b.rs` is `crate::a::b`; the root is the crate.
fn path_of(file: &Path) -> Vec<String> {
    let file = file.with_extension("");
    let mut path: Vec<String> =
        file.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if path == ["lib"] || path == ["main"] {
        path.clear();
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::circles::find;
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let module = |(file, code): &(&str, &str)| Module {
            path: path_of(Path::new(file)),
            uses: Uses::of(code),
        };
        Modules::new(files.iter().map(module).collect())
    }

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        find(&modules(files).siblings())
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let found = circles(&[("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { super::a::g() }")]);
        assert_eq!(found, [["a", "b"]]);
    }

    #[test]
    fn a_module_is_one_with_all_below_it() {
        let files = [
            ("a.rs", ""),
            ("a/one.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::two::C;"),
            ("a/two.rs", ""),
        ];
        assert_eq!(circles(&files), [["a", "b"]]);
    }

    #[test]
    fn a_topic_may_be_split_into_files() {
        let found = circles(&[("a.rs", "mod b;\nuse b::B;"), ("a/b.rs", "use super::A;")]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_name_that_is_handed_on_belongs_to_where_it_is_written() {
        let files = [
            ("lib.rs", "pub use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::A;"),
        ];
        assert_eq!(circles(&files), [["a", "b"]]);
    }
}
