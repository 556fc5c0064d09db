//! The scene of the tests that need no root.

#[allow(dead_code, reason = "some of it is for those alone")]
#[path = "../agent/scene/node.rs"]
pub mod node;
#[path = "../agent/scene/socket.rs"]
pub mod socket;
