//! What is promised of objects as data, by public names: schemas and their rules, definitions,
//! strict decoding, patches, protobuf.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cel;
mod definition;
mod protobuf;
mod schema;
mod strategic;
mod strict;
