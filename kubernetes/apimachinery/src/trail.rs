//! The position of a walk through an object.

use crate::status::Path;

/// A chain of steps on the stack. Nothing is allocated until a problem needs the path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trail<'a> {
    Root,
    /// `parent.name`
    Field(&'a Trail<'a>, &'a str),
    /// `parent[key]`
    Key(&'a Trail<'a>, &'a str),
    /// `parent[0]`
    Index(&'a Trail<'a>, usize),
}

impl Trail<'_> {
    pub(crate) fn path(&self) -> Path {
        Path::new(&self.to_string())
    }

    pub(crate) fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }
}

impl std::fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
