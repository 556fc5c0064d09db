//! What the dashboard shows, from an index that is fed by hand and from an API server.

#![cfg(test)]

mod answers;
mod map;
mod scale;
mod scene;
mod write;
