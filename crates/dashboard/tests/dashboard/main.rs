//! What the dashboard shows, of an index that is fed by hand and of an API server.

#![cfg(test)]

mod answers;
mod map;
mod scale;
mod scene;
mod write;
