//! What is promised of objects as data, by public names: schemas and their rules, definitions,
//! strict decoding, patches, protobuf.

#![cfg(test)]

mod cel;
mod definition;
mod protobuf;
mod schema;
mod strategic;
mod strict;
