//! The columns of built-in kinds, and how their cells are made. Each kind lists its own columns.

mod age;
mod custom;
mod definition;

pub use age::since_text;
pub use custom::CustomColumn;

use jiff::Timestamp;
use serde_json::{Value, json};

use definition::definition;

/// A column, and how its cell is made from an object.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    /// Shown only when asked for more (`-o wide`).
    pub wide: bool,
    cell: Cell,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    /// The text at a JSON pointer, and the text for a missing one.
    Text(&'static str, &'static str),
    Count(&'static str),
    Made(fn(&Value, Timestamp) -> Value),
}

pub const NAME: Column = Column::text("Name", "/metadata/name");
pub const AGE: Column = Column::made("Age", |object, now| {
    json!(age::since(object, "/metadata/creationTimestamp", now))
});

/// The columns of a kind that lists none.
pub const PLAIN: &[Column] = &[
    NAME,
    Column::text("Created At", "/metadata/creationTimestamp").called("date"),
];

impl Column {
    const fn new(name: &'static str, kind: &'static str, cell: Cell) -> Self {
        let wide = false;
        Self {
            name,
            kind,
            wide,
            cell,
        }
    }

    pub const fn text(name: &'static str, pointer: &'static str) -> Self {
        Self::new(name, "string", Cell::Text(pointer, ""))
    }

    pub const fn text_or(name: &'static str, pointer: &'static str, none: &'static str) -> Self {
        Self::new(name, "string", Cell::Text(pointer, none))
    }

    pub const fn count(name: &'static str, pointer: &'static str) -> Self {
        Self::new(name, "integer", Cell::Count(pointer))
    }

    pub const fn made(name: &'static str, make: fn(&Value, Timestamp) -> Value) -> Self {
        Self::new(name, "string", Cell::Made(make))
    }

    /// Sets the type in Kubernetes' column definition, if it differs from that of the cells.
    pub const fn called(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    /// As it stands in `columnDefinitions`.
    pub fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        definition(self.name, self.kind, format, "", i64::from(self.wide))
    }

    pub const fn wide(mut self) -> Self {
        self.wide = true;
        self
    }
}

pub fn cells(columns: &[Column], object: &Value, now: Timestamp) -> Vec<Value> {
    let cell = |column: &Column| match column.cell {
        Cell::Text(pointer, none) => json!(or(text(object, pointer), none)),
        Cell::Count(pointer) => json!(number(object, pointer)),
        Cell::Made(make) => make(object, now),
    };
    columns.iter().map(cell).collect()
}

pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    let found = object.pointer(pointer).and_then(Value::as_array);
    found.map(Vec::as_slice).unwrap_or_default()
}

/// How many entries a map has.
pub fn entries(object: &Value, pointer: &str) -> usize {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.map_or(0, serde_json::Map::len)
}

pub fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// A map of labels as text: `a=b,c=d`.
pub fn labels(object: &Value, pointer: &str) -> Value {
    let map = object.pointer(pointer).and_then(Value::as_object);
    let label =
        |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    let mut shown: Vec<String> = map.into_iter().flatten().map(label).collect();
    shown.sort();
    json!(or(&shown.join(","), "<none>"))
}
